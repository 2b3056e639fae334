"""What is given to others: built twice, installed in clean places, and tried there."""

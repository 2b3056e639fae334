"""What sets are worth: metrics, intervals, laws, slices."""

"""One file per library; README.md says what it may hold."""

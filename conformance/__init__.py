"""The same questions to every library. `make conformance` asks; README.md says how to add a library."""

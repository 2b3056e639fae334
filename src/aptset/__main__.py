"""``python -m aptset`` is the command line."""

from aptset.cli.start import main

if __name__ == "__main__":
    main()

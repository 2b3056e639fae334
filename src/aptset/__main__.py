"""``python -m aptset`` is the command line."""

from aptset.commands.start import main

if __name__ == "__main__":
    main()

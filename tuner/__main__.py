"""`python -m tuner` is the same as `tuner`."""

from tuner.cli import main

if __name__ == "__main__":
    main()

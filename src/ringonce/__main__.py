"""``python -m ringonce`` is the program ``ringonce``."""

from ringonce.cli import main

if __name__ == "__main__":
    main()

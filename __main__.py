"""`python -m mycelium` is the command `mycelium`."""

from .cli.main import main

if __name__ == "__main__":
    main()

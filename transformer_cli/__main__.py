"""``python -m transformer_cli`` is ``transformer-cli``."""

from transformer_cli.cli import main

if __name__ == "__main__":
    main()

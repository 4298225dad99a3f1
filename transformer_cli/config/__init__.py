"""What a YAML file may say, and reading it strictly."""

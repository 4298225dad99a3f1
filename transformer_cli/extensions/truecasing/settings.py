"""The setting for unusual casing in lines to translate."""

from transformer_cli.config.sections import Section, setting


class TruecaseSettings(Section):
    """The setting ``tokenizer.truecase``: whether to restore the casing of source lines."""

    truecase: bool = setting(
        True,
        "give lines in capitals, without capitals or with a capital in each word the casing of "
        "the training text before translating them (Lita et al. 2003); without effect if "
        "lowercase is true",
    )

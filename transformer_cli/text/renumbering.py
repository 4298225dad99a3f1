"""Ids of a tokenizer made elsewhere, in our numbers."""

from collections.abc import Iterable, Sequence

from transformer_cli.text.description import Part
from transformer_cli.text.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID


class Specials(Part):
    """The ids that another tokenizer's specials have there; None: it has no such special."""

    unk: int | None
    bos: int | None
    eos: int | None
    pad: int | None


class Renumbering:
    """Another tokenizer's ids and ours: its specials take our places 0 to 3, the rest follow.

    The rest keep their order and are numbered from 4 on without gaps. A special that the other one
    lacks has our id all the same, which stands for nothing there.

    Args:
        specials: where it has its specials.
        ids: all of its ids, in any order.

    Raises:
        ValueError: two of the specials are one, or a special is none of the ids.
    """

    def __init__(self, specials: Specials, ids: Iterable[int]) -> None:
        in_our_order = (specials.unk, specials.bos, specials.eos, specials.pad)
        named = [number for number in in_our_order if number is not None]
        rest = set(ids)
        if len(set(named)) < len(named) or not rest.issuperset(named):
            raise ValueError(f"its specials cannot have the ids {named}")
        self._theirs: list[int | None] = [*in_our_order, *sorted(rest.difference(named))]
        self._ours = {
            theirs: ours for ours, theirs in enumerate(self._theirs) if theirs is not None
        }
        # Text that spells a mark of sentences is not to become one.
        for mark in (BOS_ID, EOS_ID, PAD_ID):
            if (theirs := self._theirs[mark]) is not None:
                self._ours[theirs] = UNK_ID

    def __len__(self) -> int:
        """Our ids."""
        return len(self._theirs)

    def ours(self, theirs: Iterable[int]) -> list[int]:
        """Ids that the other tokenizer made of text; marks of sentences become unknown."""
        table = self._ours
        return [table[number] for number in theirs]

    def theirs(self, ours: Sequence[int]) -> list[int]:
        """What to show the other one, without BOS, EOS, PAD and what it lacks."""
        found = (self._theirs[n] for n in ours if n not in (BOS_ID, EOS_ID, PAD_ID))
        return [number for number in found if number is not None]

    def of(self, ours: int) -> int | None:
        """The other tokenizer's id of one of ours; None for the specials, which have our names."""
        return None if ours < len(SPECIALS) else self._theirs[ours]

from benchmarks.shortlist import learn_shortlist, vocabulary_map
from transformer_cli.data.store import EncodedText, TokenArray


def test_words_that_stay_together_are_each_others_first_candidates() -> None:
    src = TokenArray.from_sentences([[4, 5], [4, 6], [6, 5], [4]])
    tgt = TokenArray.from_sentences([[7, 8], [7, 9], [8, 9], [7]])
    frequent, candidates = learn_shortlist(EncodedText(src, tgt), 10)
    assert frequent[0] == 7
    assert {source: ids[0] for source, ids in candidates.items()} == {4: 7, 5: 8, 6: 9}


def test_a_vocabulary_map_has_a_line_for_any_source_and_one_for_each_token() -> None:
    assert vocabulary_map(([1], {0: [1, 2]}), ["a", "b", "c"]) == "\tb\na\tb c\n"

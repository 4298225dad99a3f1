"""The reliability diagram shows what its table says."""

from docs import reliability_diagram as diagram

PAGE = diagram.PAGE.read_text(encoding="utf-8")


def test_the_diagram_has_the_figures_of_the_table() -> None:
    drawn = diagram.draw(diagram.read_curves(PAGE))
    assert diagram.PICTURE.read_text(encoding="utf-8") == drawn, "run `make pictures`"


def test_each_text_has_ten_points() -> None:
    curves = diagram.read_curves(PAGE)
    assert curves["captions, held out"][0] == (10, 14)
    assert [len(points) for points in curves.values()] == [10] * 4

"""Read a sweep's YAML file, and check every point before anything is trained."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from transformer_cli.config.schema import Config
from transformer_cli.config.setting_tree import BASE, Node, find_node, setting_error
from transformer_cli.config.validation import validate_as
from transformer_cli.config.yaml import (
    check_settings,
    find_beside,
    read_mapping,
    read_settings,
    set_node,
)
from transformer_cli.data.sources import check_split
from transformer_cli.errors import CorpusError
from transformer_cli.sweeps.points import Point, as_name, as_node, grid_points, point_names
from transformer_cli.sweeps.settings import SweepSettings
from transformer_cli.sweeps.space import SearchSpace, read_space
from transformer_cli.text.scripts import has_case

SEED = "seed"


@dataclass(frozen=True)
class Sweep:
    """A sweep's file, checked."""

    settings: SweepSettings
    base: Path
    """The configuration that the points are variations of."""
    tree: Node
    """That configuration, with its bases."""
    points: list[Point]
    """Those of the grid; one without changes if there is none. Empty for a search."""
    space: SearchSpace | None
    """What a search draws points from."""

    @property
    def samples(self) -> list[Point]:
        """The points of the grid; of a search, points that have each choice and end of a range."""
        return self.points or list(_limits(self.space))

    @property
    def num_points(self) -> int:
        """Number of points that there will be, at most."""
        return len(self.points) or self.settings.trials

    def config_of(self, point: Point) -> Config:
        """Return the settings of a point, with its first seed.

        Raises:
            ConfigError: they do not fit the schema; the place is that in the sweep's file.
        """
        root = deepcopy(self.tree)
        for keys, node in point.nodes.items():
            set_node(root, tuple(keys.split(".")), deepcopy(node))
        return check_settings(root)


def load_sweep(path: Path) -> Sweep:
    """Read a sweep's file, and check each point of its grid.

    Raises:
        ConfigError: a file cannot be read, is not YAML, or a key or value does not fit. The message
            is one line with the file and line.
    """
    root = read_mapping(path, "base")
    if isinstance(root.value, dict) and root.value.keys() & Config.model_fields.keys():
        raise setting_error(
            root.place,
            (),
            f"is a configuration; write a file with base: {path.name}, and grid: settings' values",
        )
    settings = validate_as(SweepSettings, root)
    base = find_beside(path, root, (BASE,), "the sweep file's")
    assert isinstance(root.value, dict)
    grid = root.value.get("grid")
    search = root.value["search"] if settings.search else None
    for section in (grid, search):
        _check_keys(section)
    space = read_space(search) if search else None
    points = [] if search else grid_points(grid)
    sweep = Sweep(settings, base, read_settings(base), points, space)
    for point in sweep.samples:
        config = sweep.config_of(point)
        _check_splits(root, settings, config)
        _check_metric(root, settings, config)
    return sweep


def _limits(space: SearchSpace | None) -> Iterator[Point]:
    """Yield points that have to be valid for all of a search to be: one for each end or choice."""
    assert space is not None
    first = {key: value for key, value, _ in reversed([*space.limits()])}
    places = {key: place for key, _, place in space.limits()}
    chosen = [{**first, key: value} for key, value, _ in space.limits()]
    nodes = [{key: as_node(each[key], places[key]) for key in each} for each in chosen]
    # The first values are in one of each setting's points.
    unique = {str(values): one for values, one in zip(chosen, nodes, strict=True)}
    yield from map(Point, point_names([*unique.values()]), unique.values())


def _check_keys(section: Node | None) -> None:
    """Check the dotted keys of a grid or a search; the schema checks where they lead."""
    if section is None:
        return
    assert isinstance(section.value, dict)
    for key, node in section.value.items():
        if not all(key.split(".")):
            raise setting_error(
                node.place, (), f"{key}: expected a dotted key, as in training.epochs"
            )
        if above := [other for other in section.value if key.startswith(f"{other}.")]:
            raise setting_error(
                node.place, (), f"{key}: is part of {above[0]}, which is varied too; leave one out"
            )
        if key == SEED:
            raise setting_error(
                node.place, (), "seed: every point has the same seeds; say how many with seeds"
            )
        if key == BASE:
            raise setting_error(
                node.place, (), "base: all points have one base; write another sweep for another"
            )


def _check_metric(root: Node, settings: SweepSettings, config: Config) -> None:
    language = config.data.tgt_lang
    if settings.metric == "bleu_lc" and not has_case(language):
        node = find_node(root, ("metric",))
        assert node is not None
        problem = f"bleu_lc is not scored in '{language}', whose letters have no case; use bleu"
        raise setting_error(node.place, ("metric",), problem)


def _check_splits(root: Node, settings: SweepSettings, config: Config) -> None:
    for number, split in enumerate(settings.evaluate):
        node = find_node(root, ("evaluate", number))
        assert node is not None
        try:
            check_split(config.data, split)
        except CorpusError as error:
            raise setting_error(node.place, ("evaluate", number), str(error)) from error
        if split != as_name(split):
            problem = f"no directory can be named {split}; rename the split in the base"
            raise setting_error(node.place, ("evaluate", number), problem)

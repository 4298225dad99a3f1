needs = ("processes",)
provides = {
    "executor": {"cluster": {"load": "options:find_cluster", "option": "cluster"}},
    "vocab options": {"cluster": {"load": "options:ClusterOptions"}},
    "clean options": {"cluster": {"load": "options:ClusterOptions"}},
    "train options": {"cluster": {"load": "options:TrainClusterOptions"}},
    "translate options": {"cluster": {"load": "options:TranslateClusterOptions"}},
}

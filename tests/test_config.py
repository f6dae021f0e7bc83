"""Settings: names, files, overrides, and one clear line for everything that is wrong."""

from pathlib import Path

import pytest

from cfq_bench.config.loader import GROUPS, known_names, load_settings, read_group
from cfq_bench.config.plugin import config_class
from cfq_bench.config.yaml import parse_yaml
from cfq_bench.errors import UserError


@pytest.mark.parametrize("group", ["data", "backbone", "teacher", "method", "solver"])
def test_every_packaged_file_loads(group: str) -> None:
    for name in known_names(group):
        settings = load_settings(**{group: name})  # type: ignore[arg-type]
        assert getattr(settings, group).name == name
        assert getattr(settings, group).about


def test_defaults_are_the_papers_objective() -> None:
    method = load_settings().method
    assert method.name == "cfq"
    values = method.model_dump()
    assert (values["valid"], values["steps"], values["eta"], values["task"]) == (
        "hard",
        3,
        1.0,
        1.0,
    )
    assert values["target"] == "opposite"


def test_overrides_reach_every_depth() -> None:
    settings = load_settings(
        overrides=["seed=7", "method.eta=2", "budget.avg_bits=3", "actions.features.age.kind=any"]
    )
    assert settings.seed == 7
    assert settings.method.model_dump()["eta"] == 2.0
    assert settings.budget.avg_bits == 3.0
    assert settings.actions.features["age"].kind == "any"


def test_a_name_can_be_an_override() -> None:
    settings = load_settings(overrides=["data=german", "method=lsq"])
    assert (settings.data.name, settings.method.name) == ("german", "lsq")
    assert settings.actions.name == "german/paper"


def test_settings_are_frozen_and_hash_the_same_however_they_are_given() -> None:
    first = load_settings("lsq", overrides=["budget.avg_bits=4"])
    second = load_settings("lsq", overrides=["budget.avg_bits=4.0"])
    assert first.model_dump_json() == second.model_dump_json()
    with pytest.raises(Exception, match="frozen"):
        first.seed = 3  # type: ignore[misc]


def test_a_subclass_keeps_its_fields_when_dumped() -> None:
    assert "eta" in load_settings("cfq").model_dump(mode="json")["method"]


def test_a_users_yaml_by_path(tmp_path: Path) -> None:
    raw, _ = read_group("method", "cfq")
    lines = [f"{k}: {v}".lower() if isinstance(v, bool) else f"{k}: {v}" for k, v in raw.items()]
    text = "\n".join(line for line in lines if not line.startswith(("name", "about", "eta")))
    path = tmp_path / "mine.yaml"
    path.write_text(f"{text}\nabout: mine\neta: 4.0\n")
    settings = load_settings(method=str(path))
    assert settings.method.name == "mine"
    assert settings.method.model_dump()["eta"] == 4.0


def test_a_users_folder_comes_first(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    (folder / "backbone").mkdir(parents=True)
    (folder / "backbone" / "tiny.yaml").write_text(
        "about: tiny\nmodule: cfq_bench.backbones.mlp\nhidden: [4]\n"
    )
    settings = load_settings(backbone="tiny", conf_dir=folder)
    assert settings.backbone.model_dump()["hidden"] == [4]
    assert "mlp2" in known_names("backbone", folder)


def test_a_method_of_ones_own_is_one_file_and_one_yaml(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from cfq_bench.config.qat import QATSettings\n"
        "from cfq_bench.methods.qat import QATMethod\n"
        "class Config(QATSettings):\n    strength: float\n"
        "class Mine(QATMethod):\n"
        "    def objective(self, batch):\n        return self(batch[0]).sum()\n"
    )
    (tmp_path / "mine.yaml").write_text(
        "about: mine\nmodule: mine.py\nactivation_quantizer: lsq\nmixed_allocator: pool_mse\n"
        "strength: 1e-3\n"
    )
    settings = load_settings(method=str(tmp_path / "mine.yaml"))
    assert settings.method.model_dump()["strength"] == 0.001


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["method.etaa=1"], ["method.etaa", "did you mean 'method.eta'?"]),
        (["bugdet.avg_bits=3"], ["bugdet", "did you mean 'budget'?", "bugdet.avg_bits"]),
        (["method.eta=-1"], ["method.eta must be greater than or equal to 0", "-1", "overrides"]),
        (["budget.avg_bits=many"], ["budget.avg_bits", "number", "'many'"]),
        (["seed=true"], ["seed", "integer", "True"]),
        (["quantization.activation_bits=17"], ["quantization.activation_bits", "17"]),
        (["quantization.candidates=[4,2]"], ["candidates must ascend"]),
        (["budget.avg_bits=2.5", "quantization.candidates=[3,4]"], ["below the fewest", "3"]),
        (["budget.allocator=uniform", "budget.avg_bits=3.5"], ["uniform", "3.5"]),
        (["budget.allocator=fixed"], ["budget.bits", "fixed"]),
        (["budget.allocator=5"], ["budget.allocator", "string", "5"]),
        (["budget=5"], ["budget", "5"]),
        (["allocator=hawq"], ["write budget.allocator=NAME"]),
        (["budget.allocator=hawk"], ["unknown allocator 'hawk'", "did you mean 'hawq'?"]),
        (["budget.allocator=hawq", "allocator.probes=0"], ["allocator.probes", "0"]),
        (["allocator.probes=9"], ["allocator.probes"]),
        (["quantization.layers=some"], ["quantization.layers", "'some'"]),
        (["actions.features.agee=any"], ["agee", "compas"]),
        (["actions.features.age=none"], ["actions.features.age.kind", "immutable"]),
        (["actions.bounds.low=0.9", "actions.bounds.high=0.1"], ["low 0.9 is above high 0.1"]),
        (["seed"], ["'seed' is not an override", "key=value"]),
        (["method.eta=[1"], ["not valid YAML"]),
        (["solver=serach"], ["unknown solver 'serach'", "did you mean 'search'?"]),
    ],
)
def test_bad_overrides_are_one_clear_line(overrides: list[str], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        load_settings(overrides=overrides)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize("group", list(GROUPS))
def test_unknown_names_list_the_known_ones(group: str) -> None:
    key = "budget.allocator" if group == "allocator" else group
    with pytest.raises(UserError, match=f"unknown {group} 'nothing'.*Known: "):
        load_settings(overrides=[f"{key}=nothing"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("about: x\nmodule: cfq_bench.methods.lsq\nmodule: y\n", "line 3.*'module' is given twice"),
        ("- a\n- b\n", "expected 'key: value' lines"),
        ("about: x\n", "the setting method.module is missing"),
        ("about: x\nmodule: cfq_bench.methods.nothing\n", "does not exist"),
        ("about: x\nmodule: cfq_bench.errors\n", ""),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    if not words:
        load_settings(method=str(path))  # a module without Config has the group's settings
        return
    with pytest.raises(UserError, match=words) as caught:
        load_settings(method=str(path))
    assert "\n" not in str(caught.value)


def test_a_config_with_a_heavy_import_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "heavy.py"
    path.write_text(
        "import torch\nfrom cfq_bench.config.base import MethodSettings\n"
        "class Config(MethodSettings):\n    size: torch.Tensor\n"
    )
    with pytest.raises(UserError, match="Config may use only the standard library"):
        config_class(str(path))


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", "1E-3", "+1e-3"])
def test_numbers_are_read_as_people_write_them(text: str) -> None:
    assert parse_yaml(f"lr: {text}", "test") == {"lr": 0.001}

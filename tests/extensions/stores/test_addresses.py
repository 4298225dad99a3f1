"""No message shows secrets."""

import re
from pathlib import Path

import pytest
from cli.process import assert_refused, run

from transformer_cli.base.locations import hide_credentials

SECRETS = [
    *("https://SECRET@h/x", "https://user:SECRET@h/x", "https://user:SE@CRET@h/x"),
    *("https://user:SE/CRET@h/x", "https:/user:SECRET@h/x", "https:user:SECRET@h/x"),
    *("https:///user:SECRET@h/x", r"https:\\user:SECRET@h/x", "HTTPS://user:SECRET@h/x"),
    *("htps://SECRET@h/x", "ttps://SECRET@h/x", "https//user:SECRET@h/x", "//user:SECRET@h/x"),
    *("user:SECRET@h/x", "s3:/key:SECRET@bucket/x", "sftp:user:SECRET@h/x", "tcp://u:SECRET@h:1"),
    *("https://h/x?key=SECRET", "https://h/x?SECRET", "https://h/x?a=1&b=SECRET"),
    *("https://h/x;token=SECRET", "https://h/x;SECRET", "https://h/x#token=SECRET"),
    *("https://h/x#SECRET", "https:/h/x?key=SECRET", "https:/h/x;SECRET", "s3://b/x;token=SECRET"),
    *("s3://b/x#token=SECRET", "https://h/a.zip/x?key=SECRET", "https://user:1@h/x?SECRET"),
    *("https://h/x?sig=ab%2F;token=SECRET", "https://user:@h/x#SECRET"),
    *("git+https://SECRET@h/x", "x://user:SECRET@h:1", "https://a/x,https://user:SECRET@h/x"),
    *("https://user:SE/CR@ET@h/x", "https://user:SE?CRET@h/x", "user:SECRET@example.com"),
    *("https://127.0.0.1:SECRET/x", "https://user%3ASECRET%40h/x"),
]


@pytest.mark.parametrize("url", SECRETS)
def test_no_form_of_a_url_shows_its_secret(url: str) -> None:
    for text in (url, f"'{url}': no such file", f"-i {Path(url).absolute()}: no such file"):
        hidden = hide_credentials(text)
        assert not set(re.findall("[A-Z]+", hidden)) & {"SECRET", "SE", "CRET"}, hidden
        assert "…" in hidden


@pytest.mark.parametrize(
    "text",
    [
        *("https://h:8080/a@b/x.txt", "sftp://me@host/x.txt", "hdfs://me@host/x", "s3://b/a@b.zst"),
        *("hf://datasets/a/b@main/x.parquet", "tls://[::1]:8786", "https://h/a.zip/part-?.txt"),
        *("train.de:7: 'a@@ b@@ c' has @", "git@github.com", r"C:\x\y@z.txt", "s3://b/part-?.zst"),
        *("https://h/x: it has moved; check the URL", "12:30@@ and more", "see https://h/x?"),
        *("file a#b=c.txt", "12:30@home", "Zeile;lang=de", "mailto:john@example.com", "a&b=c"),
        *("sftp://me@host:22': x", "(see https://h/x?), or https://h/x;", "x" * 5000),
    ],
)
def test_text_without_secrets_stays(text: str) -> None:
    assert hide_credentials(text) == text


@pytest.mark.long_cases
@pytest.mark.parametrize(
    "url",
    [
        *("https:/user:SECRET@h/x", "https//user:SECRET@h/x", "htps://user:SECRET@h/x"),
        *("https://h/x;token=SECRET", "https://h/x#token=SECRET", "https://SECRET@h/x"),
    ],
)
def test_no_secret_of_a_url_is_shown_or_recorded(config: Path, url: str) -> None:
    setting = ("--set", f"data.train.src={url}")
    for command in (
        ("train", "tiny.yaml", *setting),
        ("config", "show", "tiny.yaml", *setting),
        ("translate", "run", "-i", url),
        ("train", url),
        ("translate", url),
    ):
        refused = run(*command, cwd=config.parent)
        assert_refused(refused, 2)
        assert "SECRET" not in refused.out + refused.err
    assert [path.name for path in config.parent.iterdir()] == [config.name]

"""The reader of configurations, compared with a real Nginx."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from tests.hosts.nginxes import needs_nginx
from tests.seeds import shifted
from tuner.errors import DefinitionError
from tuner.reading.nginx_text import parse, scan
from tuner.servers import nginx

pytestmark = needs_nginx
LEXICAL = re.compile(r"\[emerg\].*(unexpected \"|unexpected end of file|too long parameter)")
# Each text is valid for Nginx up to the place that its reader accepts or refuses.
TEXTS = [
    'types { "a/b" c; }',
    "types { a/b c } }",
    "types { a/b c}; }",
    "types { a/b }; }",
    'types { a/b "c"d; }',
    'types { a/b "c"}; }',
    'types { a/b "c"#d\n; }',
    'types { a/b "c")d; }',
    "types { a/b 'c'\"d\"; }",
    "types { a/b c'd\"; }",
    "types { a/b c#d; }",
    "types { a/b #c;\n d; }",
    "types { a/b c\\; d\\{ e\\}; }",
    "types { a/b ${c}; }",
    "types { a/b ${{{c}; }",
    "types { a/b $${c}; }",
    "types { a/b '${c}'; }",
    "types { a/b 'c\n d'; }",
    "types { a/b 'c; }",
    'types { a/b "c\\"; }',
    "types { a/b c\\",
    "types { a/b c",
    "types { a/b c; ",
    "types { a/b c; } }",
    "types { ; }",
    "types {} ;",
    "types {} {}",
    "types {\r\na/b c;\r\n}\r\n",
    "types { a/b c;\x0c}",
    "types { a/b c\u00a0d; }",
    f"types {{ a/b {'c' * 4095}; }}",
    f"types {{ a/b {'c' * 4096}; }}",
    f"types {{ a/b '{'c' * 4094}'; }}",
    f"types {{ a/b '{'c' * 4095}'; }}",
    f"types {{ a/b '{'c' * 4096}'; }}",
    f"types {{ a/b {'ä' * 2047}; }}",
    f"types {{ a/b {'ä' * 2048}; }}",
    f"#{'c' * 4094}\n",
    f"#{'c' * 4095}\n",
    f"types {{ {' ' * 5000} }}",
    'server { if ($uri = "a"){ } }',
    'server { location "/a" { } location /b{}location /c{ } }',
    "server { location ~ '^/a{2}$' { } }",
]


def said(folder: Path, text: str) -> str:
    """Return what Nginx prints about a configuration of an ``http`` block with this text."""
    main = folder / "nginx.conf"
    main.write_bytes(whole(text).encode())
    command = [nginx.detect().binary, "-t", "-p", f"{folder}/", "-c", str(main), "-e", "stderr"]
    return subprocess.run(
        [*command, "-g", f"pid {folder}/pid;"], capture_output=True, check=False
    ).stderr.decode()


def whole(text: str) -> str:
    """Return a configuration with this text; it ends where an unfinished text does."""
    return f"events {{}}\nhttp {{\n{text}" + ("\n}\n" if text[-1] in "};\n" else "")


def refusal(text: str) -> bool:
    """Return whether tuner's reader refuses a text."""
    try:
        parse(text)
    except DefinitionError:
        return True
    return False


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:30])
def test_the_reader_accepts_what_nginx_reads(tmp_path: Path, text: str) -> None:
    """Both refuse the same texts; what directives mean is another question."""
    assert refusal(whole(text)) == bool(LEXICAL.search(said(tmp_path, text)))


def test_words_mean_what_nginx_understands(tmp_path: Path) -> None:
    """Several hundred random words, in quotes and without, have the same value in both."""
    source = random.Random(shifted(1))
    words: dict[str, str] = {}
    while len(words) < 400:
        raw = "".join(source.choices("ab\\\\\"'${}()#;\n\ttrn ä", k=source.randrange(1, 9)))
        try:
            tokens = list(scan(f"{raw};"))
        except DefinitionError:
            continue
        if [(token.kind, token.text) for token in tokens] == [("word", raw), (";", ";")]:
            words[raw] = tokens[0].plain
    # Nginx warns of a second type for a name, and the warning has both types as it read them.
    text = "\n".join(f"{raw} same;" for raw in ("first", *words))
    warned = said(tmp_path, f"types {{\n{text}\n}}")
    pattern = r' content type: "(.*?)", previous content type: "'
    assert re.findall(pattern, warned, re.DOTALL) == list(words.values())

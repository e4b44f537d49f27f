"""Step of the action: write the report as a comment on the pull request, or renew it there.

https://docs.github.com/rest/issues/comments
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LONGEST = 65_536
"""Limit of GitHub for a comment, characters."""
_PAGE = 100
_CUT = "\n\n*The comment is cut here; the artifact and the summary of the job have the rest.*\n"


def body(mark: str, report: str) -> str:
    """Return the text of the comment: a mark that readers do not see, and the report."""
    text = f"{mark}\n{report}"
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - len(_CUT)].rpartition("\n")[0] + _CUT


def call(method: str, path: str, content: object = None) -> Any:
    """Return the answer of GitHub's interface."""
    request = urllib.request.Request(  # noqa: S310 - the runner's address
        f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}",
        method=method,
        data=None if content is None else json.dumps(content).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['INPUT_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - likewise
        return json.load(answer)


def comments(number: int) -> Iterator[dict[str, Any]]:
    """Yield all comments of a pull request."""
    page = 1
    while True:
        found = call("GET", f"issues/{number}/comments?per_page={_PAGE}&page={page}")
        yield from found
        if len(found) < _PAGE:
            return
        page += 1


def write(number: int, mark: str, text: str) -> None:
    """Renew the comment with this mark, or add one."""
    for comment in comments(number):
        if comment["body"].startswith(mark):
            call("PATCH", f"issues/comments/{comment['id']}", {"body": text})
            return
    call("POST", f"issues/{number}/comments", {"body": text})


def main() -> None:
    """Write the comment; without a pull request or the right to comment, say so."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    if "pull_request" not in event:
        print("::notice title=tuner::no comment: this is no run of a pull request")
        return
    mark = f"<!-- tuner compare {os.environ['STUDY']} -->"
    report = Path(os.environ["FOLDER"], "report.md").read_text(encoding="utf-8")
    try:
        write(event["pull_request"]["number"], mark, body(mark, report))
    except urllib.error.HTTPError as error:
        # The token of a run from a fork may not write. The summary has the report all the same.
        print(
            f"::warning title=tuner::no comment: GitHub answers {error.code} {error.reason};"
            " the job needs 'permissions: pull-requests: write'"
        )


if __name__ == "__main__":
    main()

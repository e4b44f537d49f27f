"""Completion in bash, which splits words at ``:`` and ``=``.

Click's own script passes these pieces on, so that ``nginx:st`` would be three words. This one
passes the line, and removes from each answer the part before the last such character, which bash
keeps (Bash manual, "Programmable Completion", COMP_WORDBREAKS).
"""

from __future__ import annotations

import os
from typing import ClassVar

from click.shell_completion import BashComplete, add_completion_class, split_arg_string

_SOURCE = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    local line=${COMP_LINE:0:COMP_POINT} kept=
    local word=${line##*[[:space:]]} breaks=${COMP_WORDBREAKS//[^:=]/}
    [[ -n $breaks && $word == *[$breaks]* ]] && kept=${word%%"${word##*[$breaks]}"}

    response=$(env COMP_WORDS="$line" %(complete_var)s=bash_complete "$1")

    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("${value#"$kept"}") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@add_completion_class
class BashLine(BashComplete):
    """Completion in bash by the whole line up to the cursor."""

    source_template: ClassVar[str] = _SOURCE

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the complete words of the line, and the incomplete one."""
        line = os.environ["COMP_WORDS"]
        found = split_arg_string(line)[1:]
        if not found or line[-1:].isspace():
            return found, ""
        return found[:-1], found[-1]

#compdef ripc ripc-bench fileget fileserver
# SPDX-License-Identifier: BSD-3-Clause
# Completion in zsh. All words come from the program's own --help; IDs of services from ripc ls.

local program=$words[1] help
local -a options entries

if [[ $program:t == ripc && $CURRENT -gt 2 ]]; then
	help=$($program $words[2] --help 2>/dev/null)
else
	help=$($program --help 2>/dev/null)
fi
options=(${(f)"$(grep -oE -- '(^|[^a-zA-Z0-9-])--?[a-z][a-z-]*' <<<$help |
	grep -oE -- '--?[a-z][a-z-]*')"})
entries=(${(f)"$(sed -nE '/^Peers:/q; s/^  ([a-z][a-z-]*)  .*/\1/p' <<<$help)"})

if [[ $program:t == ripc && $words[2] == ping && $CURRENT -eq 3 && $PREFIX != -* ]]; then
	compadd -- ${(f)"$($program ls --timeout 100 2>/dev/null | grep -oE '^0x[0-9a-f]+' | grep -v '^0xff')"}
elif [[ $program:t == ripc && $words[2] == key && $CURRENT -gt 2 && $PREFIX != -* ]] && [[ "$words[2,CURRENT-1]" != *[^a-z\ ]* ]]; then
	entries=(${(f)"$(sed -nE "s/.*ripc ${words[2,CURRENT-1]} ([a-z|]+)( .*)?\$/\1/p" <<<$help | tr '|' '\n')"})
	(( $#entries )) && compadd -- $entries || _files
elif [[ $words[CURRENT-1] == --vs ]]; then
	compadd -- none ${(f)"$(sed -n '/^Peers:/,$p' <<<$help | sed -nE 's/^  ([a-z][a-z-]*)  .*/\1/p')"}
elif [[ $program:t == ripc* && $CURRENT -eq 2 && $PREFIX != -* ]]; then
	compadd -- $entries
elif [[ $PREFIX == -* ]]; then
	compadd -- $options
else
	_files
fi

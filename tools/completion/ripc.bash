# SPDX-License-Identifier: BSD-3-Clause
# Completion in bash for ripc, ripc-bench, fileget and fileserver. All words come from the program's
# own --help, so that none is out of date; IDs of services come from ripc ls.

# The options that a help text on standard input names.
_ripc_options()
{
	grep -oE -- '(^|[^a-zA-Z0-9-])--?[a-z][a-z-]*' | grep -oE -- '--?[a-z][a-z-]*'
}

# The first words of a help text's paragraphs, indented by two: commands, tests, peers.
_ripc_entries()
{
	sed -nE 's/^  ([a-z][a-z-]*)  .*/\1/p'
}

# The IDs that ripc ls lists, but those of groups.
_ripc_services()
{
	grep -oE '^0x[0-9a-f]+' | grep -v '^0xff'
}

# Words that may follow "ripc key": a subcommand; after a subcommand its words, if it has any.
_ripc_choices()
{
	local words="${COMP_WORDS[*]:1:COMP_CWORD-1}"

	[[ $words != *[^a-z\ ]* ]] || return
	sed -nE "s/.*ripc $words ([a-z|]+)( .*)?\$/\1/p" | tr '|' '\n'
}

_ripc_tool()
{
	local program=$1 command=${COMP_WORDS[1]}

	if [ "$COMP_CWORD" -eq 1 ]; then
		words="$("$program" --help | _ripc_entries) --version --help"
	elif [ "$command" = ping ] && [ "$COMP_CWORD" -eq 2 ] && [[ $current != -* ]]; then
		words=$("$program" ls --timeout 100 2>/dev/null | _ripc_services)
	elif [ "$command" = key ] && [[ $current != -* ]]; then
		words=$("$program" key --help | _ripc_choices)
	else
		words=$("$program" "$command" --help 2>/dev/null | _ripc_options)
	fi
}

_ripc_bench()
{
	local program=$1 help

	help=$("$program" --help 2>/dev/null)
	case $previous in
	--vs) words="none $(sed -n '/^Peers:/,$p' <<<"$help" | _ripc_entries)" ;;
	--backend) words="shm verbs rdmacm ofi udp" ;;
	*)
		words=$(_ripc_options <<<"$help")
		[ "$COMP_CWORD" -gt 1 ] || words+=" $(sed '/^Peers:/,$d' <<<"$help" | _ripc_entries)"
		;;
	esac
}

_ripc()
{
	local program=$1 current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words=

	case ${program##*/} in
	ripc) _ripc_tool "$program" ;;
	ripc-bench) _ripc_bench "$program" ;;
	*) [[ $current != -* ]] || words=$("$program" --help 2>/dev/null | _ripc_options) ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current" | sort -u)
}

# Where no word fits, files do.
complete -o default -F _ripc ripc ripc-bench fileget fileserver

# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# After the completion that is generated: the names that this machine has. Anybody may name an interface, so no
# name is expanded as a word of bash.
_iopm_with_names() {
	local word functions=/sys/bus/pci/devices bars=/dev/io_peer_mem name names=() files=()
	# COMP_WORDS has a PCI address in parts: bash ends a word at a colon.
	word=${COMP_LINE:0:COMP_POINT} word=${word##*[[:space:]]}
	_iopm "$@"
	case ${COMP_WORDS[1]} in
	bind) names=("$functions"/*) ;;
	unbind) names=("$bars"/*) ;;
	drain) names=("$bars"/* /sys/kernel/mm/memory_peers/*) ;;
	info) names=("$bars"/*) files=("$bars"/*/*) ;;
	doctor) names=(/sys/class/infiniband/*) ;;
	test) names=(/sys/class/infiniband/*) files=("$bars"/*/*) ;;
	nearest) names=(/sys/class/{infiniband,net}/* "$functions"/*) ;;
	esac
	[ "$COMP_CWORD" -gt 1 ] || names=() files=()
	for name in "${names[@]}"; do [ ! -e "$name" ] || files+=("${name##*/}"); done
	for name in "${!COMPREPLY[@]}"; do [[ ${COMPREPLY[name]} != [\[\<]* ]] || unset "COMPREPLY[name]"; done
	for name in "${files[@]}"; do
		[[ $name != "$word"* || $name = *'*' ]] || COMPREPLY+=("$(printf %q "$name")")
	done
	# What bash replaces begins after the last colon.
	[[ $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
}
complete -o nosort -o bashdefault -o default -F _iopm_with_names iopm

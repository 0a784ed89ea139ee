#compdef khz
# Completions of khz for zsh. compadd quotes what khz answers.
_khz() {
    local -a all open whole
    local word
    all=("${(@f)$(command khz complete zsh -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for word in "${all[@]}"; do
        case $word in
            (*[.:=/,\[]) open+=("$word") ;;
            (?*) whole+=("$word") ;;
        esac
    done
    if (( $#open + $#whole == 0 )); then
        _files
        return
    fi
    (( $#open )) && compadd -S '' -- "${open[@]}"
    (( $#whole )) && compadd -- "${whole[@]}"
    return 0
}
if [ "$funcstack[1]" = _khz ]; then
    _khz "$@"
else
    compdef _khz khz
fi

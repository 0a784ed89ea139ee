# Completions of khz for bash. khz reads the line itself, and quotes what it
# answers: nothing of it is executed.
_khz() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(command khz complete bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    case ${COMPREPLY[0]-} in
        *[.:=/,\[]) compopt -o nospace ;;
    esac
}
complete -o default -F _khz khz

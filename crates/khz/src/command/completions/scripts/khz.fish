# Completions of khz for fish, which quotes what khz answers.
function __khz_complete
    set -l before (commandline -opc)
    set -l word (commandline -ct)
    command khz complete fish -- $before "$word" 2>/dev/null
end
complete -c khz -f -a '(__khz_complete)'

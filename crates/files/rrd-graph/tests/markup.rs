//! Legends with `--pango-markup` take as much room as rrdtool's.

use std::process::Command;

/// Legends whose letters are all of one size.
const LEGENDS: [&str; 11] = [
    "plain",
    "<b>bold</b> and <i>more</i>",
    "<span foreground='red'>red</span>",
    "<span foreground=\"#00ff00\" weight='bold'>green</span> end",
    "a &lt; b &amp; c &gt; d",
    "&quot;quoted&quot; and &apos;",
    "&#62;&#x3e;",
    "<tt>code</tt><u>u</u><s>s</s>",
    "<b><i>both</i></b>",
    "<b></b>x",
    "<b/>x",
];

fn legend(program: &str, text: &str) -> Vec<String> {
    let mut command = Command::new(program);
    command.args(["graphv", "-", "-s", "1700000000", "-e", "1700003600", "--pango-markup", "LINE:5"]);
    command.env("FONTCONFIG_FILE", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/fonts.conf"));
    let output = command.arg(format!("LINE1:4#f00:{}", text.replace(':', "\\:"))).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let all = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let is_told =
        |line: &&str| line.starts_with("coords") || line.starts_with("legend") || line.starts_with("ERROR");
    all.lines().filter(is_told).map(str::to_owned).collect()
}

#[test]
fn legends_with_markup_take_as_much_room_as_rrdtools() {
    let wrong: Vec<String> = LEGENDS
        .iter()
        .map(|text| (text, legend(env!("CARGO_BIN_EXE_khz-rrd-graph"), text), legend("rrdtool", text)))
        .filter(|(_, ours, theirs)| ours != theirs)
        .map(|(text, ours, theirs)| format!("{text}\n  ours:   {ours:?}\n  theirs: {theirs:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

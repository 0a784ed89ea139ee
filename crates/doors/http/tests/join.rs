//! Modules of the page, joined by the build: what is made of small ones, and which are refused.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

#[path = "../build/join.rs"]
mod join;
#[path = "../build/shorter.rs"]
mod shorter;

use join::{Files, files_for, join as joined, with_imports};
use shorter::{Kind, shorter};

fn files(modules: &[(&str, &str)]) -> Files {
    modules.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

const COLOUR: (&str, &str) =
    ("colour", "export const [RED, BLUE] = [1, 2];\nexport async function* shades(of) {}\n");
const PAINT: (&str, &str) = (
    "paint",
    "import { BLUE as SEA, RED } from \"./colour.js\";\nexport { RED } from \"./colour.js\";\nconst DEPTH = 3;\nexport class Paint {}\n",
);
const MAIN: (&str, &str) = (
    "main",
    "import { Paint } from \"./paint.js\";\nif (Paint) import(\"./late-part.js\").then(({ add }) => add());\n",
);
const LATE: (&str, &str) = ("late-part", "import { RED } from \"./colour.js\";\nexport function add() {}\n");
const PARTS: &[(&str, &[&str])] = &[("first", &["paint"]), ("page", &["main"]), ("late", &["late-part"])];

#[test]
fn a_part_has_a_function_for_each_module_after_those_that_it_imports() {
    let files = joined(&files(&[COLOUR, PAINT, MAIN, LATE]), PARTS).unwrap();
    assert_eq!(
        files["part-first"],
        "// colour.js\n\
         const $colour = (() => {\nconst [RED, BLUE] = [1, 2];\nasync function* shades(of) {}\n\
         return { RED, BLUE, shades };\n})();\n\
         // paint.js\n\
         const $paint = (() => {\nconst { BLUE: SEA, RED } = $colour;\nconst DEPTH = 3;\nclass Paint {}\n\
         return { $colour.RED: RED, Paint };\n})();\n\
         export { $colour, $paint };\n"
            .replace("$colour.RED: RED", "RED: $colour.RED")
    );
}

#[test]
fn a_part_takes_from_others_what_they_have_and_asks_at_once_for_all_that_a_later_one_needs() {
    let sources = files(&[COLOUR, PAINT, MAIN, LATE]);
    let files = joined(&sources, PARTS).unwrap();
    assert!(
        files["part-page"].starts_with("import { $paint } from \"./part-first.js\";\n"),
        "{}",
        files["part-page"]
    );
    let loads =
        "if (Paint) import(\"./part-late.js\").then((part) => part.$late_part).then(({ add }) => add());";
    assert!(
        files["part-page"].contains(loads),
        "what is here already is not asked for: {}",
        files["part-page"]
    );
    assert_eq!(files_for(&sources, PARTS, "late-part").unwrap(), ["part-late", "part-first"]);
    let apart = joined(&sources, &[("first", &["paint"]), ("late", &["late-part"])]).unwrap();
    assert_eq!(
        apart["main"],
        "import { $paint } from \"./part-first.js\"; const { Paint } = $paint;\n".to_owned() + loads + "\n"
    );
    let unneeded = "import(\"./late-part.js\").then((late) => late);\n";
    let lone = joined(
        &self::files(&[COLOUR, LATE, ("main", unneeded)]),
        &[("colours", &["colour"]), ("late", &["late-part"])],
    )
    .unwrap();
    assert_eq!(
        lone["main"],
        "Promise.all([import(\"./part-late.js\"), import(\"./part-colours.js\")]).then(([part]) => part.$late_part).then((late) => late);\n"
    );
}

#[test]
fn a_module_of_a_part_has_a_file_that_takes_it_from_there_and_without_parts_all_stay_as_they_are() {
    let sources = files(&[COLOUR, PAINT, MAIN, LATE]);
    let files = joined(&sources, PARTS).unwrap();
    assert_eq!(
        files["paint"],
        "import { $paint } from \"./part-first.js\";\nexport const { RED, Paint } = $paint;\n"
    );
    assert_eq!(files["main"], "import \"./part-page.js\";\n");
    assert_eq!(joined(&sources, &[]).unwrap(), sources);
    assert_eq!(with_imports(&sources, "paint").unwrap().into_iter().collect::<Vec<_>>(), ["colour", "paint"]);
}

#[test]
fn what_cannot_be_joined_is_refused_with_its_place() {
    for line in [
        "export let count = 0;",
        "export default class {}",
        "export { a as b };",
        "import * as all from \"./x.js\";",
        "import { a } from \"https://elsewhere/x.js\";",
        "import {",
        "const here = import.meta.url;",
        "const late = import(`./${name}.js`);",
        "await import(\"./x.js\");",
    ] {
        let text = format!("// A module.\n{line}\n");
        let refused = joined(&files(&[("x", &text)]), &[]).unwrap_err();
        assert!(refused.starts_with("x.js:2: "), "{line}: {refused}");
    }
    for (modules, parts, why) in [
        (
            vec![("a", "import { b } from \"./b.js\";\n"), ("b", "import { a } from \"./a.js\";\n")],
            [("p", &["a"])],
            "a.js imports itself",
        ),
        (vec![("a", "import { b } from \"./b.js\";\n")], [("p", &["a"])], "there is no b.js, which a names"),
        (vec![("a", "import(\"./b.js\");\n")], [("p", &["a"])], "a.js loads b.js, which does not exist"),
        (vec![("a", "")], [("p", &["b"])], "there is no b.js, which a part names"),
        (vec![("a", ""), ("part-p", "")], [("p", &["a"])], "part-p.js is the name of a part"),
    ] {
        let parts: Vec<(&str, &[&str])> =
            parts.iter().map(|(name, roots)| (*name, roots.as_slice())).collect();
        let refused = joined(&files(&modules), &parts).unwrap_err();
        assert!(refused.starts_with(why), "{refused}");
    }
}

#[test]
fn comments_indents_and_empty_lines_are_left_out_but_not_within_texts() {
    let script = "// One.\n\n/** Two,\n * three. */\nconst a = 1; // stays\n  const b = `x\n  // a text\n\n`;\n  /* four */ go();\n";
    assert_eq!(
        shorter(script, Kind::Script).unwrap(),
        "const a = 1; // stays\nconst b = `x\n  // a text\n\n`;\n/* four */ go();\n"
    );
    assert_eq!(shorter("/* x\n*/\na {\n  b: c;\n}\n", Kind::Style).unwrap(), "a {\nb: c;\n}\n");
    assert_eq!(shorter("<p>\n  // x\n</p>\n", Kind::Page).unwrap(), "<p>\n// x\n</p>\n");
    assert!(shorter("/* x\n", Kind::Style).is_err() && shorter("const a = `\n", Kind::Script).is_err());
}

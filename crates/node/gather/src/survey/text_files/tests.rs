//! Folders of made-up files of numbers, and what programs may do to them.

use super::*;
use crate::made_up::MadeUp;
use crate::survey::looks::Looks;
use crate::survey::{SurveySettings, TEXT_FILE_NAMES_MAX};
use khz_model::Reading;
use khz_parse::{Subject, textfile::FILE};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Series and their readings, of those that are there.
fn present(looks: &Looks) -> Vec<(String, f64)> {
    let parser = looks.parse(&FILE);
    let series = parser.schema().series().iter().enumerate();
    let one = |(slot, series): (usize, &khz_model::Series)| match parser.reading(slot)? {
        Reading::Present(bits) if series.metric.name.starts_with("text.") => {
            Some((series.to_string(), f64::from_bits(bits)))
        }
        Reading::Present(number) => Some((series.to_string(), number as f64)),
        _ => None,
    };
    series.filter_map(one).filter(|(name, _)| !name.starts_with("textfile.mtime")).collect()
}

fn shown(looks: &Looks) -> Vec<String> {
    present(looks).into_iter().map(|(series, value)| format!("{series} {value}")).collect()
}

fn file(name: &str) -> String {
    format!("var/lib/prometheus/node-exporter/{name}")
}

#[test]
fn files_are_read_again_when_they_change_and_left_out_with_an_error() {
    let root = MadeUp::new("text-files");
    root.write(&file("a.prom"), "# TYPE done_total counter\ndone_total{queue=\"x\"} 7\n");
    root.write(&file("b.prom"), "on 1\n");
    root.write(&file("b.prom.tmp"), "on 2\n");
    let looks = Looks::at(&root, Subject::TextFiles);
    assert_eq!(shown(&looks), ["textfile.error 0", "text.done_total[queue=x] 7", "text.on 1"]);
    // A program is still writing.
    root.write(&file("b.prom"), "on 1\nload");
    assert_eq!(shown(&looks), ["textfile.error 1", "text.done_total[queue=x] 7"]);
    root.write(&file("b.prom"), "on 3\nload 5\n");
    std::fs::remove_file(root.join(file("a.prom"))).unwrap();
    assert_eq!(shown(&looks), ["textfile.error 0", "text.on 3", "text.load 5"]);
    // Two files may have numbers of one name.
    root.write(&file("c.prom"), "on{a=\"1\"} 4\n");
    assert_eq!(shown(&looks), ["textfile.error 0", "text.on 3", "text.on[a=1] 4", "text.load 5"]);
}

#[test]
fn any_name_of_a_file_is_shown_and_files_beyond_the_limit_are_an_error() {
    let root = MadeUp::new("text-files-names");
    let folder = root.join(file(""));
    for (number, name) in [&b"a \\b.prom"[..], b"c\n.prom", b"d\xff.prom"].into_iter().enumerate() {
        root.write(&file("of.tmp"), format!("x{number} 1\n"));
        std::fs::rename(folder.join("of.tmp"), folder.join(OsStr::from_bytes(name))).unwrap();
    }
    let looks = Looks::at(&root, Subject::TextFiles);
    assert_eq!(shown(&looks), ["textfile.error 0", "text.x0 1", "text.x1 1", "text.x2 1"]);
    let parser = looks.parse(&FILE);
    let files = parser
        .schema()
        .series()
        .iter()
        .filter_map(|series| Some(series.instance.as_ref()?.name().to_owned()));
    let folder = "/var/lib/prometheus/node-exporter";
    let names: Vec<String> = files
        .filter(|name| name.contains(folder))
        .map(|name| name.rsplit('/').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["a \\b.prom", "c\n.prom", "d\\xFF.prom"]);
    for number in 0..TEXT_FILES_MAX {
        root.write(&file(&format!("n{number:03}.prom")), format!("y{number} 1\n"));
    }
    let shown = shown(&looks);
    assert_eq!((&*shown[0], shown.len()), ("textfile.error 1", 1 + TEXT_FILES_MAX));
}

#[test]
fn a_file_that_khz_cannot_show_is_left_out_and_the_others_stay() {
    let whole = ["textfile.error 1", "text.on 1"];
    let long = format!("x{{a=\"{}\"}} 1\n", "v".repeat(5_000));
    let many: String = (0..TEXT_FILE_SERIES_MAX).map(|n| format!("x{{n=\"{n}\"}} 1\n")).collect();
    let huge = "# a comment\n".repeat(TEXT_FILE_BYTES_MAX as usize / 12 + 1);
    for (number, text) in [
        "node_load1 1\n",
        "node_time_seconds 1\n",
        "up 1\n",
        "khz_job_x 1\n",
        "on 2\n",
        "On 2\n",
        "x 1\nX 2\n",
        "# TYPE on gauge\nup{a=\"1\"} 1\n",
        "x 1 1600000000000\n",
        "# TYPE x counter\nx -5\n",
        "x{a=\"1\",b=\"2\"} 1\nx{b=\"2\",a=\"1\"} 1\n",
        "x \u{0}\n",
        &long,
        &many,
        &huge,
    ]
    .iter()
    .enumerate()
    {
        let root = MadeUp::new(&format!("text-files-{number}"));
        root.write(&file("a.prom"), "on 1\n");
        root.write(&file("b.prom"), text);
        assert_eq!(shown(&Looks::at(&root, Subject::TextFiles)), whole, "{number}");
    }
    let root = MadeUp::new("text-files-bytes");
    root.write(&file("a.prom"), "on 1\n");
    root.write(&file("b.prom"), b"x{a=\"\xff\"} 1\n");
    std::fs::create_dir(root.join(file("c.prom"))).unwrap();
    let pipe = root.join(file("d.prom"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(shown(&Looks::at(&root, Subject::TextFiles)), whole);
}

#[test]
fn labels_names_and_files_that_change_all_the_time_take_a_bounded_number_of_bytes() {
    let value = "v".repeat(4_000);
    let labels = |n: usize, of: usize| format!("x{{a=\"{n}-{of}-{value}\"}} 1\n");
    let metrics = |n: usize, of: usize| format!("# HELP m{n}_{of} {}\nm{n}_{of} 1\n", &value[..200]);
    type Line<'a> = &'a dyn Fn(usize, usize) -> String;
    let ways: [(&str, usize, Line<'_>); 2] = [("labels", 150, &labels), ("metrics", 1_000, &metrics)];
    for (name, count, line) in ways {
        let root = MadeUp::new(&format!("text-files-bomb-{name}"));
        root.write(&file("calm.prom"), "calm 1\n");
        let looks = Looks::at(&root, Subject::TextFiles);
        let mut parser = khz_parse::Parser::new(&FILE);
        for generation in 0..8 {
            let text: String = (0..count).map(|number| line(generation, number)).collect();
            root.write(&file("bomb.prom"), text);
            parser.advance_with(&looks.bytes().unwrap());
            assert!(shown(&looks).contains(&"text.calm 1".to_owned()), "{name} {generation}");
        }
        let (names, _) = parser.names();
        assert!(names > TEXT_FILE_NAMES_MAX / 2 && names < 3 * TEXT_FILE_NAMES_MAX, "{name}: {names} bytes");
        assert_eq!(shown(&looks)[0], "textfile.error 1");
    }
}

#[test]
fn each_file_that_is_left_out_is_named_with_its_reason() {
    let root = MadeUp::new("text-files-named");
    let looks = Looks::at(&root, Subject::TextFiles);
    let problem_now = || {
        let _ = looks.bytes();
        looks.survey.lock().problems[0].clone()
    };
    root.write(&file("a.prom"), "on 1\n");
    assert_eq!(problem_now(), None);
    root.write(&file("b.prom"), "on 1\nload");
    std::fs::create_dir(root.join(file("c.prom"))).unwrap();
    let problem = problem_now().unwrap_or_default();
    assert!(problem.starts_with("textfile.error is 1, since files are left out: /"), "{problem}");
    assert!(problem.contains("/b.prom: line 2"), "{problem}");
    assert!(problem.ends_with("/c.prom: it is a folder"), "{problem}");
    // Nothing has changed, and so nothing is read.
    assert_eq!(problem_now(), Some(problem));
    for number in 0..PROBLEMS_SHOWN {
        root.write(&file(&format!("d{number:02}.prom")), "x");
    }
    let problem = problem_now().unwrap_or_default();
    assert!(problem.ends_with("; and 2 more"), "{problem}");
}

/// What a lane cannot say to a hub would take all later series of the node with it.
#[test]
fn each_series_of_a_file_that_is_taken_can_be_said_in_a_schema() {
    const LETTERS: [&str; 5] = [":", "_", "a", "Z", "0"];
    const VALUES: [&str; 8] = ["", "x", ":", "a\\nb", "\\\"", "\\\\", "\u{202e}", "\u{1}é"];
    let root = MadeUp::new("text-files-schema");
    let looks = Looks::at(&root, Subject::TextFiles);
    let (mut taken, mut refused) = (0, 0);
    let mut check = |text: String| {
        root.write(&file("a.prom"), &text);
        let parser = looks.parse(&FILE);
        let (mut encoder, mut decoder, mut bytes) =
            (khz_block::SchemaEncoder::new(), khz_block::SchemaDecoder::new(), Vec::new());
        for series in parser.schema().series() {
            encoder.append(series, &mut bytes).unwrap_or_else(|error| panic!("{text}: {series}: {error}"));
        }
        decoder.feed(&bytes).unwrap_or_else(|error| panic!("{text}: {error}"));
        match present(&looks).iter().any(|(name, _)| name.starts_with("text.")) {
            true => taken += 1,
            false => refused += 1,
        }
    };
    for first in LETTERS {
        check(format!("{first} 1\n"));
        for second in LETTERS {
            check(format!("{first}{second} 1\n"));
            check(format!("{first}{second}:{first} 1\n"));
            check(format!("x{{{first}{second}=\"1\"}} 1\n"));
        }
    }
    for value in VALUES {
        check(format!("x{{a=\"{value}\"}} 1\n"));
        check(format!("# HELP x {value}\n# TYPE x counter\nx{{b=\"{value}\",c=\"{value}{value}\"}} 1\n"));
    }
    assert!(taken > 50 && refused > 20, "{taken} taken, {refused} refused");
}

#[test]
fn a_name_keeps_its_first_type_and_a_counter_below_zero_is_an_error() {
    let root = MadeUp::new("text-files-types");
    root.write(&file("a.prom"), "# TYPE cg counter\ncg 5\nother 1\n");
    root.write(&file("free.prom"), "# TYPE g gauge\ng -1\n");
    let looks = Looks::at(&root, Subject::TextFiles);
    assert_eq!(shown(&looks), ["textfile.error 0", "text.cg 5", "text.other 1", "text.g -1"]);
    let without = ["textfile.error 1", "text.g -1"];
    for (text, expected) in [
        (
            "# TYPE cg gauge\ncg 4\nother 2\n",
            &["textfile.error 0", "text.cg 4", "text.other 2", "text.g -1"][..],
        ),
        ("# TYPE cg gauge\ncg -5\nother 3\n", &without),
        ("cg -6\nother 4\n", &without),
        ("# TYPE cg counter\ncg -6\nother 4\n", &without),
        // Other labels are another series, whose name has its type, too.
        ("# TYPE cg gauge\ncg{a=\"1\"} -7\nother 5\n", &without),
        ("other 6\n", &["textfile.error 0", "text.other 6", "text.g -1"]),
        ("cg -8\nother 7\n", &without),
        ("cg 0\n", &["textfile.error 0", "text.cg 0", "text.g -1"]),
    ] {
        root.write(&file("a.prom"), text);
        assert_eq!(shown(&looks), expected, "{text}");
        let is_told = looks.problem().is_some_and(|problem| {
            problem.contains("cg is a counter") && problem.ends_with("and below zero")
        });
        assert_eq!(is_told, expected == without, "{text}: {:?}", looks.problem());
    }
    // Another file is no way around it.
    std::fs::remove_file(root.join(file("a.prom"))).unwrap();
    root.write(&file("b.prom"), "# TYPE cg gauge\ncg{b=\"2\"} -1\n");
    assert_eq!(shown(&looks), without);
    // What was no counter first is none later.
    root.write(&file("b.prom"), "# TYPE g counter\ng{a=\"1\"} -1\n");
    std::fs::remove_file(root.join(file("free.prom"))).unwrap();
    assert_eq!(shown(&looks), ["textfile.error 0", "text.g[a=1] -1"]);
    let parser = looks.parse(&FILE);
    let series = parser.schema().series().iter().find(|series| &*series.metric.name == "text.g").unwrap();
    assert_eq!(series.metric.kind, khz_model::Kind::Gauge);
}

#[test]
fn a_folder_that_somebody_has_named_is_an_error_while_it_cannot_be_read() {
    let root = MadeUp::new("text-files-folder");
    let settings = |expects_text_files| SurveySettings {
        text_files: "/srv/numbers".into(),
        expects_text_files,
        ..SurveySettings::default()
    };
    let (named, usual) = (
        Looks::with(&root, &settings(true), Subject::TextFiles),
        Looks::with(&root, &settings(false), Subject::TextFiles),
    );
    let problem = || named.problem().unwrap_or_default();
    let begin = "textfile.error is 1, since the folder of files of numbers cannot be read: ";
    // Never there; then with a file; gone; a file; a link in a circle, as root may read all folders; there again.
    assert_eq!((shown(&named), usual.bytes()), (vec!["textfile.error 1".into()], Err(Errno::NOENT)));
    assert!(
        problem().starts_with(begin) && problem().contains("/srv/numbers: No such file"),
        "{}",
        problem()
    );
    let place = root.join("srv/numbers");
    for _ in 0..2 {
        root.write("srv/numbers/a.prom", "on 1\n");
        assert_eq!(
            (shown(&named), problem()),
            (vec!["textfile.error 0".into(), "text.on 1".into()], String::new())
        );
        assert_eq!(shown(&usual), ["textfile.error 0", "text.on 1"]);
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!((shown(&named), usual.bytes()), (vec!["textfile.error 1".into()], Err(Errno::NOENT)));
        root.write("srv/numbers", "a file");
        assert_eq!(
            (shown(&named), shown(&usual)),
            (vec!["textfile.error 1".into()], vec!["textfile.error 1".into()])
        );
        assert!(problem().ends_with("/srv/numbers: it is no folder"), "{}", problem());
        std::fs::remove_file(&place).unwrap();
        std::os::unix::fs::symlink(&place, &place).unwrap();
        assert_eq!(
            (shown(&named), shown(&usual)),
            (vec!["textfile.error 1".into()], vec!["textfile.error 1".into()])
        );
        assert!(problem().starts_with(begin), "{}", problem());
        std::fs::remove_file(&place).unwrap();
    }
}

#[test]
fn files_that_are_shown_keep_their_places_when_others_come() {
    let series =
        |name: &str, count: usize| (0..count).map(|n| format!("{name}{{n=\"{n}\"}} 1\n")).collect::<String>();
    let count_of = |looks: &Looks, name: &str| {
        shown(looks).iter().filter(|line| line.starts_with(&format!("text.{name}["))).count()
    };
    // Numbers.
    let root = MadeUp::new("text-files-places");
    root.write(&file("z.prom"), series("z", 5_000));
    let looks = Looks::at(&root, Subject::TextFiles);
    assert_eq!(count_of(&looks, "z"), 5_000);
    root.write(&file("a.prom"), series("a", 5_000));
    assert_eq!(
        (count_of(&looks, "z"), count_of(&looks, "a"), shown(&looks)[0].as_str()),
        (5_000, 0, "textfile.error 1")
    );
    root.write(&file("b.prom"), series("b", 3_000));
    assert_eq!(["z", "a", "b"].map(|name| count_of(&looks, name)), [5_000, 0, 3_000]);
    // One that grows pushes no other out.
    root.write(&file("b.prom"), series("b", 4_000));
    assert_eq!(["z", "a", "b"].map(|name| count_of(&looks, name)), [5_000, 0, 0]);
    std::fs::remove_file(root.join(file("z.prom"))).unwrap();
    assert_eq!(["z", "a", "b"].map(|name| count_of(&looks, name)), [0, 5_000, 0]);
    // Bytes of names.
    let root = MadeUp::new("text-files-places-names");
    let long = |name: &str| {
        (0..200).map(|n| format!("{name}{{n=\"{n}{}\"}} 1\n", "v".repeat(4_000))).collect::<String>()
    };
    root.write(&file("z.prom"), long("z"));
    let looks = Looks::at(&root, Subject::TextFiles);
    root.write(&file("a.prom"), long("a"));
    assert_eq!(["z", "a"].map(|name| count_of(&looks, name)), [200, 0]);
    // Bytes of files.
    let root = MadeUp::new("text-files-places-bytes");
    let large = |name: &str| {
        format!("{name}{{n=\"1\"}} 1\n") + &"# a comment\n".repeat(TEXT_FILE_BYTES_MAX as usize / 12 - 10)
    };
    ["w", "x", "y", "z"].iter().for_each(|name| root.write(&file(&format!("{name}.prom")), large(name)));
    let looks = Looks::at(&root, Subject::TextFiles);
    assert_eq!(["w", "x", "y", "z"].map(|name| count_of(&looks, name)), [1; 4]);
    root.write(&file("a.prom"), large("a"));
    assert_eq!(["a", "w", "x", "y", "z"].map(|name| count_of(&looks, name)), [0, 1, 1, 1, 1]);
    // Files.
    let root = MadeUp::new("text-files-places-files");
    root.write(&file("z.prom"), "z{n=\"1\"} 1\n");
    let looks = Looks::at(&root, Subject::TextFiles);
    (0..TEXT_FILES_MAX + 2)
        .for_each(|number| root.write(&file(&format!("f{number:03}.prom")), format!("f{number} 1\n")));
    let lines = shown(&looks);
    assert_eq!((lines.len(), lines[0].as_str()), (1 + TEXT_FILES_MAX, "textfile.error 1"));
    assert_eq!(count_of(&looks, "z"), 1);
    assert!(looks.problem().unwrap_or_default().contains("3 files beyond 256"), "{:?}", looks.problem());
}

#[test]
fn of_two_files_with_the_same_series_the_first_of_the_alphabet_has_it_also_if_it_comes_later() {
    let root = MadeUp::new("text-files-alphabet");
    root.write(&file("z.prom"), "on 1\n");
    let looks = Looks::at(&root, Subject::TextFiles);
    assert_eq!(shown(&looks), ["textfile.error 0", "text.on 1"]);
    root.write(&file("a.prom"), "on 2\n");
    assert_eq!(shown(&looks), ["textfile.error 1", "text.on 2"]);
}

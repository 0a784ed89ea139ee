//! Asks git whether the code that a figure depends on has changed since the figure's commit. In a shallow
//! checkout that is unknown, which is no failure.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// Files whose changes alter no figure.
const LEFT_OUT: [&str; 4] =
    [":(exclude)*/tests/*", ":(exclude)*tests.rs", ":(exclude)*.md", ":(exclude)*/fixtures/*"];

/// Lines whose changes alter no figure: comments, and lines without text. (`+`, not `*`: git gives the expression the end of
/// each line too, and nothing at all would match there.)
const NO_CODE: [&str; 2] =
    ["--ignore-matching-lines=^[[:space:]]*//", "--ignore-matching-lines=^[[:space:]]+$"];

/// The age of a figure's code by git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Age {
    /// Unchanged since the measurement.
    Fresh,
    /// Changed since.
    Stale {
        /// The first commit that changed it, abbreviated.
        since: String,
        /// The changed paths.
        paths: Vec<String>,
    },
    /// Not known, for this reason.
    Unknown(String),
}

impl Age {
    /// The text in the last cell of a table.
    pub fn mark(&self) -> String {
        match self {
            Age::Fresh => String::new(),
            Age::Stale { since, paths } => {
                // Everybody here calls `crates/cluster/hub/src` the hub.
                let short = |path: &String| {
                    let path = path.strip_prefix("crates/").unwrap_or(path);
                    path.strip_suffix("/src").unwrap_or(path).to_owned()
                };
                format!("**stale** since {since}: {}", paths.iter().map(short).collect::<Vec<_>>().join(", "))
            }
            Age::Unknown(why) => why.clone(),
        }
    }
}

/// A project's history.
pub struct History<'a> {
    root: &'a Path,
    known: HashMap<(String, Vec<String>), Age>,
}

impl<'a> History<'a> {
    /// The history of the project in this folder.
    pub fn of(root: &'a Path) -> Self {
        History { root, known: HashMap::new() }
    }

    /// Whether one of these paths differs between this commit and the present one.
    pub fn age(&mut self, commit: &str, code: &[String]) -> Age {
        let key = (commit.to_owned(), code.to_vec());
        if let Some(age) = self.known.get(&key) {
            return age.clone();
        }
        let age = self.ask(commit, code);
        self.known.insert(key, age.clone());
        age
    }

    fn ask(&self, commit: &str, code: &[String]) -> Age {
        let (left_out, code): (Vec<&String>, Vec<&String>) =
            code.iter().partition(|path| path.starts_with('!'));
        if code.is_empty() {
            return Age::Fresh;
        }
        let left_out: Vec<String> =
            left_out.iter().map(|path| format!(":(exclude){}*", &path[1..])).collect();
        let left_out: Vec<&str> = LEFT_OUT.into_iter().chain(left_out.iter().map(String::as_str)).collect();
        if self.git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_none() {
            return Age::Unknown(String::from("its commit is not in this checkout"));
        }
        let changed = |from: &str, to: &str, path: &str| {
            let words = [&["diff", "--quiet"][..], &NO_CODE, &[from, to, "--", path], &left_out].concat();
            self.git(&words).is_none()
        };
        let paths: Vec<String> =
            code.into_iter().filter(|path| changed(commit, "HEAD", path)).cloned().collect();
        if paths.is_empty() {
            return Age::Fresh;
        }
        let range = format!("{commit}..HEAD");
        let asked: Vec<&str> = paths.iter().map(String::as_str).collect();
        let words = [&["log", "--reverse", "--format=%h", &range, "--"][..], &asked, &left_out].concat();
        let commits = self.git(&words).unwrap_or_default();
        let is_change = |commit: &&str| {
            let before = format!("{commit}^");
            paths.iter().any(|path| changed(&before, commit, path))
        };
        let since = commits.lines().find(is_change).map(str::to_owned);
        Age::Stale { since: since.unwrap_or_else(|| String::from("another branch")), paths }
    }

    /// The output of git; `None` if it fails.
    fn git(&self, words: &[&str]) -> Option<String> {
        let output = Command::new("git").arg("-C").arg(self.root).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    struct Project(PathBuf);

    impl Project {
        fn new(name: &str) -> Project {
            let project = Project(std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id())));
            fs::create_dir_all(&project.0).unwrap();
            project.git(&["init", "-q"]);
            project
        }

        fn git(&self, words: &[&str]) -> String {
            let settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
            let output =
                Command::new("git").arg("-C").arg(&self.0).args(settings).args(words).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        }

        fn commit(&self, file: &str, text: &str) -> String {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self.git(&["add", "."]);
            self.git(&["commit", "-q", "-m", file]);
            self.git(&["rev-parse", "HEAD"])
        }
    }

    impl Drop for Project {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_figure_is_stale_since_the_first_change_of_its_code_and_of_nothing_else() {
        let project = Project::new("stale");
        let measured = project.commit("hub/src/lib.rs", "1\n");
        let code = ["hub".to_owned(), "link".to_owned()];
        let age = |code: &[String]| History::of(&project.0).age(&measured, code);
        assert_eq!(age(&code), Age::Fresh);
        project.commit("http/src/lib.rs", "1");
        project.commit("hub/tests/lab.rs", "1");
        project.commit("hub/README.md", "1");
        project.commit("hub/src/lib.rs", "// One.\n\n1\n");
        assert_eq!(age(&code), Age::Fresh, "tests, texts and comments change no figure");
        let change = project.commit("hub/src/lib.rs", "// One.\n\n1\n2\n");
        project.commit("hub/src/peer.rs", "1");
        let Age::Stale { since, paths } = age(&code) else { panic!("it is not stale") };
        assert!(change.starts_with(&since), "{since}");
        assert_eq!(paths, ["hub"]);
        assert_eq!(
            age(&["hub".into(), "!hub/src".into()]),
            Age::Fresh,
            "a path that is left out changes nothing either"
        );
        assert_eq!(age(&[]), Age::Fresh, "what depends on no code is never stale");
        project.commit("hub/src/lib.rs", "1\n");
        fs::remove_file(project.0.join("hub/src/peer.rs")).unwrap();
        project.git(&["add", "-A"]);
        project.git(&["commit", "-q", "-m", "back"]);
        assert_eq!(age(&code), Age::Fresh, "what was taken back has changed nothing");
    }

    #[test]
    fn without_history_it_is_not_known_and_no_failure() {
        let project = Project::new("shallow");
        project.commit("hub/src/lib.rs", "1\n");
        let missing = "0123456789012345678901234567890123456789";
        let age = History::of(&project.0).age(missing, &["hub".to_owned()]);
        assert_eq!(age.mark(), "its commit is not in this checkout");
        let nowhere = std::env::temp_dir();
        assert!(matches!(History::of(&nowhere).age(missing, &["hub".to_owned()]), Age::Unknown(_)));
    }
}

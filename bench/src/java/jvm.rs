//! The JVM: which one, the jar of the benchmarks, and a program in it that takes turns with others. Knows nothing of
//! what is measured.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::BenchError;
use crate::pairs::Contender;
use crate::program::{Program, failed};
use crate::record::Record;

/// The oldest JDK that has what is measured.
const JDK_MIN: u32 = 25;

/// Where distributions put JDKs.
const JDKS: &str = "/usr/lib/jvm";

/// The class that takes turns.
const TURNS: &str = "dev.kilohertz.gather.Turns";

/// The class that gathers at a fixed rate.
const PACED: &str = "dev.kilohertz.gather.Paced";

/// Native calls have to be allowed.
pub const NATIVE: &str = "--enable-native-access=ALL-UNNAMED";

/// A JDK, and the jar that was built with it.
pub struct Jvm {
    home: PathBuf,
    jar: PathBuf,
}

impl Jvm {
    /// Builds the benchmarks with Maven.
    pub fn build(record: &Record) -> Result<Self, BenchError> {
        let home = jdk()?;
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../java");
        record.progress("Maven builds java/bench");
        let output = Command::new("mvn")
            .args([
                "-B",
                "-q",
                "-DskipTests",
                "-Dmaven.javadoc.skip",
                "-Pbench",
                "-pl",
                "bench",
                "-am",
                "package",
                "-f",
            ])
            .arg(project.join("pom.xml"))
            .env("JAVA_HOME", &home)
            .output()
            .map_err(|e| failed("mvn (Debian package maven)", e))?;
        if !output.status.success() {
            return Err(failed("mvn package", String::from_utf8_lossy(&output.stdout)));
        }
        Ok(Jvm { home, jar: project.join("bench/target/benchmarks.jar") })
    }

    /// A command that runs its `java`.
    pub fn java(&self) -> Command {
        Command::new(self.home.join("bin/java"))
    }

    /// The jar.
    pub fn jar(&self) -> &Path {
        &self.jar
    }

    /// A command that gathers at a fixed rate, in a JVM with these flags; its own arguments follow.
    pub fn paced(&self, flags: &[&str]) -> Command {
        let mut command = self.java();
        command.args(flags).args([NATIVE, "-cp"]).arg(&self.jar).arg(PACED);
        command
    }

    /// A program that takes turns. It has the captured texts in `frames`.
    pub fn turns(&self, frames: &Path) -> Result<Turns, BenchError> {
        let mut command = self.java();
        command.args([NATIVE, "-cp"]).arg(&self.jar).arg(TURNS).arg(frames);
        Ok(Turns { program: RefCell::new(Program::of("java Turns", &mut command)?) })
    }
}

/// A program in the JVM.
pub struct Turns {
    program: RefCell<Program>,
}

impl Turns {
    /// A contender that goes this way, after `warm_up`: until then the JIT compiler works.
    pub fn contender<'a>(
        &'a self,
        name: &str,
        way: &str,
        warm_up: Duration,
    ) -> Result<Contender<'a>, BenchError> {
        self.program.borrow_mut().batch(way, warm_up)?;
        let way = way.to_owned();
        Ok(Contender::foreign(name, move |span| self.program.borrow_mut().batch(&way, span)))
    }
}

/// How long a way is warmed up.
pub fn warm_up(record: &Record) -> Duration {
    Duration::from_millis(record.effort.of(3_000, 1_500))
}

/// The folder of a JDK that is new enough: that of `JAVA_HOME`, else the newest that is installed.
fn jdk() -> Result<PathBuf, BenchError> {
    let told = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let installed = std::fs::read_dir(JDKS).into_iter().flatten().flatten().map(|entry| entry.path());
    let versions = told.into_iter().chain(installed).filter_map(|home| Some((version(&home)?, home)));
    let newest = versions.max_by_key(|(version, _)| *version).filter(|(version, _)| *version >= JDK_MIN);
    newest.map(|(_, home)| home).ok_or_else(|| {
        let problem = format!("JAVA_HOME names none of version {JDK_MIN} or newer, nor is one in {JDKS}");
        failed("java", problem)
    })
}

/// The feature version that a JDK states in its file `release`.
fn version(home: &Path) -> Option<u32> {
    feature(&std::fs::read_to_string(home.join("release")).ok()?)
}

fn feature(release: &str) -> Option<u32> {
    let line = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    line.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_release_file() {
        let release = "IMPLEMENTOR=\"Eclipse Adoptium\"\nJAVA_VERSION=\"25.0.1\"\nLIBC=\"gnu\"\n";
        assert_eq!(feature(release), Some(25));
        assert_eq!(feature("JAVA_VERSION=\"26\"\n"), Some(26));
        assert_eq!(feature("JAVA_VERSION=\"x\"\n"), None);
        assert_eq!(feature(""), None);
    }
}

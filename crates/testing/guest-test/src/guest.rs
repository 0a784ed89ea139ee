//! A virtual machine under QEMU, with one processor, little memory, and a shell that runs the commands of a test. The
//! processor is emulated, so that a test runs the same everywhere. KVM would save seconds, but it needs privileges, and
//! inside another virtual machine it may exist and hang. A guest has no disk, and no network unless the test adds one.
//! It ends with the test.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use crate::PATIENCE;
use crate::debian::Kernel;

/// A running guest.
pub struct Guest {
    qemu: Child,
    /// The second serial line, which `bin/console` in the guest reads.
    console: ChildStdin,
    lines: Receiver<String>,
    /// The file with the output of the kernel and the first process.
    log: PathBuf,
    image: PathBuf,
    asked: u64,
}

/// The result of a command in the guest.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its exit code.
    pub code: i32,
    /// Its output, stdout and stderr together.
    pub text: String,
}

impl Guest {
    /// Boots a kernel with a packed image and `memory_mib` of memory. Waits for the shell.
    pub fn boot(kernel: &Kernel, image: PathBuf, memory_mib: u32, kernel_words: &str, more: &[&str]) -> Self {
        let log = image.with_extension("log");
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-accel", "tcg", "-cpu", "max", "-smp", "1"]);
        command.args(["-m", &memory_mib.to_string(), "-nodefaults", "-no-reboot", "-display", "none"]);
        command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&image);
        command.args(["-append", &format!("console=ttyS0 panic=-1 {kernel_words}")]);
        command.args(["-serial", &format!("file:{}", log.display()), "-serial", "stdio"]).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut qemu = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let console = qemu.stdin.take().expect("BUG: it was asked for");
        let lines = lines(BufReader::new(qemu.stdout.take().expect("BUG: it was asked for")));
        let guest = Guest { qemu, console, lines, log, image, asked: 0 };
        while guest.line() != "ready" {}
        guest
    }

    /// Runs a shell command and waits until it has ended.
    pub fn run(&mut self, line: &str) -> Done {
        self.asked += 1;
        let number = self.asked;
        writeln!(self.console, "{number} {line}").unwrap_or_else(|error| self.gone(&error.to_string()));
        let (begin, end) = (format!("begin {number}"), format!("end {number} "));
        while self.line() != begin {}
        let mut text = String::new();
        loop {
            let line = self.line();
            // A last line without a newline comes before the mark, in the same line.
            if let Some((rest, code)) = line.split_once(&end) {
                let code = code.parse().unwrap_or_else(|_| panic!("BUG: no exit code: {line}"));
                return Done { code, text: text + rest };
            }
            text += &line;
            text.push('\n');
        }
    }

    /// Runs a shell command that must succeed. Returns its output.
    pub fn say(&mut self, line: &str) -> String {
        let done = self.run(line);
        assert_eq!(done.code, 0, "{line}\n{}", done.text);
        done.text
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| self.gone(&error.to_string()))
    }

    fn gone(&self, why: &str) -> ! {
        let said = read(&self.log);
        let last: Vec<&str> = said.lines().rev().take(40).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        panic!("the guest does not answer ({why}); its last output:\n{}", last.join("\n"));
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        let _ = std::fs::remove_file(&self.image);
        // The log of a failed test is kept.
        if !std::thread::panicking() {
            let _ = std::fs::remove_file(&self.log);
        }
    }
}

/// Sends each line as it comes, from a thread that ends with the guest.
fn lines(mut console: impl BufRead + Send + 'static) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while console.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            line.clear();
            if tell.send(text).is_err() {
                return;
            }
        }
    });
    told
}

fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

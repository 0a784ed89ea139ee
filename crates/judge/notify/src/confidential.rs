//! The secrets of all ways together. They must never be shown, since any server or program may quote them. Secrets are in files.
//! Each file is read again when it has changed.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use khz_ask::{ForeignServer, Login, Secrets, is_secret_header};

use crate::now::Now;
use crate::settings::Settings;

/// A shorter word of a command would occur in any text.
const WORD_BYTES_MIN: usize = 4;

/// Where the secrets of a configuration are.
#[derive(Debug, Default)]
pub(crate) struct Confidential {
    files: Vec<PathBuf>,
    fixed: Secrets,
    /// What was in the files.
    known: Mutex<HashMap<PathBuf, (Stamp, Secrets)>>,
}

/// What changes with a file: device, inode, length, and the time of the change in seconds and nanoseconds.
type Stamp = (u64, u64, u64, i64, i64);

/// A file that was changed within this time, in seconds, may change again without a new stamp.
const SETTLED: i64 = 2;

impl Confidential {
    /// The secrets of these ways.
    pub fn of(settings: &Settings) -> Self {
        let mut all = Confidential::default();
        let servers = settings.alertmanagers.iter().map(|way| &way.server);
        servers.chain(settings.webhooks.iter().map(|way| &way.server)).for_each(|server| all.add(server));
        all.files
            .extend(settings.email.iter().filter_map(|way| way.login.as_ref()).map(|(_, file)| file.clone()));
        for way in &settings.execs {
            for (word, at) in way.command.iter().zip(secret_words(&way.command)) {
                if let Some(secret) =
                    at.and_then(|at| word.get(at..)).filter(|word| word.len() >= WORD_BYTES_MIN)
                {
                    all.fixed.add(secret);
                }
            }
        }
        all
    }

    fn add(&mut self, server: &ForeignServer) {
        match &server.login {
            Login::Nothing => {}
            Login::Bearer(file) | Login::Basic(_, file) => self.files.push(file.clone()),
        }
        let headers = server.headers.iter().filter(|(name, _)| is_secret_header(name));
        headers.for_each(|(_, value)| self.fixed.add(value));
        self.fixed.add_url(&server.url);
    }

    /// The current secrets. A file is read only if it has changed. An unreadable file has no secret that could have been shown.
    pub fn read(&self) -> Secrets {
        let (mut secrets, now) = (self.fixed.clone(), Now::read().wall / 1_000);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for file in &self.files {
            let stamp = std::fs::metadata(file)
                .ok()
                .map(|meta| (meta.dev(), meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()));
            let is_settled = stamp.is_some_and(|stamp| (now - stamp.3).abs() > SETTLED);
            match (known.get(file), stamp.filter(|_| is_settled)) {
                (Some((before, of_file)), Some(stamp)) if *before == stamp => secrets.add_all(of_file),
                (_, stamp) => {
                    let mut of_file = Secrets::default();
                    khz_ask::secret("", file).iter().for_each(|secret| of_file.add(secret));
                    secrets.add_all(&of_file);
                    match stamp {
                        Some(stamp) => drop(known.insert(file.clone(), (stamp, of_file))),
                        None => drop(known.remove(file)),
                    }
                }
            }
        }
        secrets
    }
}

/// For each word of a command, where a secret seems to begin: after `--password=`, after `--token` as a whole word, after
/// `Authorization:`, and after the '?' of a URL. `None`: the word has no secret. The program's name is no secret.
pub fn secret_words(command: &[String]) -> Vec<Option<usize>> {
    let mut is_next = false;
    let one = |(number, word): (usize, &String)| {
        if number == 0 {
            return None;
        }
        if std::mem::take(&mut is_next) && !word.starts_with("--") {
            return Some(0);
        }
        let named = word.match_indices(['=', ':', ' ']).find(|(at, _)| is_secret_header(&word[..*at]));
        let queried = word.find("://").and_then(|at| Some(at + word[at..].find('?')?));
        let begin = named.map(|(at, _)| at).into_iter().chain(queried).min().map(|at| at + 1);
        is_next = begin.is_none() && word.starts_with('-') && is_secret_header(word);
        begin
    };
    command.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_like_secrets_are_found_and_others_are_not() {
        let words = [
            "/bin/passpage",
            "--password=SECRET",
            "--token",
            "SECRET",
            "--to",
            "ops",
            "-H",
            "Authorization: Bearer SECRET",
            "http://hook/x?SECRET",
            "http://hook/x",
            "a b",
        ];
        let words = words.map(str::to_owned);
        let shown: Vec<String> = words
            .iter()
            .zip(secret_words(&words))
            .map(|(word, at)| word[..at.unwrap_or(word.len())].to_owned())
            .collect();
        let expected = [
            "/bin/passpage",
            "--password=",
            "--token",
            "",
            "--to",
            "ops",
            "-H",
            "Authorization:",
            "http://hook/x?",
            "http://hook/x",
            "a b",
        ];
        assert_eq!(shown, expected);
    }
}

//! What nobody is shown: the secrets of all ways together, since a server or a program may quote any of them. Secrets are in
//! files, and are read each time.

use std::path::PathBuf;

use khz_ask::{ForeignServer, Login, Secrets, is_secret_header};

use crate::settings::Settings;

/// A shorter word of a command is in any text.
const WORD_BYTES_MIN: usize = 4;

/// Where the secrets of a configuration are.
#[derive(Debug, Default)]
pub(crate) struct Confidential {
    files: Vec<PathBuf>,
    fixed: Secrets,
}

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

    /// The secrets as they are now. A file that cannot be read has none that was shown to anybody.
    pub fn read(&self) -> Secrets {
        let mut secrets = self.fixed.clone();
        let files = self.files.iter().filter_map(|file| khz_ask::secret("", file).ok());
        files.for_each(|secret| secrets.add(&secret));
        secrets
    }
}

/// Where the words of a command begin to look like a secret, for each word: after `--password=`, after `--token` as a whole,
/// after `Authorization:`, and after the '?' of a URL. `None`: nothing of it does. The program itself is none.
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

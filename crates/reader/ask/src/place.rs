//! A place of somebody else that takes bytes, as the configuration names it: a receiver of remote write, an Alertmanager, a
//! webhook. Shows it who we are. Knows nothing of what is sent, and does not say what an answer means.

use std::time::Duration;

use khz_trust::ClientFiles;

use crate::AskError;
use crate::login::Login;
use crate::post::{NoAnswer, Post, PostAnswer};

/// A server of somebody else.
#[derive(Clone, Debug)]
pub struct ForeignServer {
    /// Where it is.
    pub url: String,
    /// How long an answer may take.
    pub timeout: Duration,
    /// What it is shown.
    pub login: Login,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// The files of TLS; `None`: the address has none.
    pub files: Option<ClientFiles>,
}

/// A place that takes bytes, and what it is shown.
pub struct Place {
    post: Post,
    server: ForeignServer,
}

impl Place {
    /// The place at the URL of this server.
    ///
    /// # Errors
    /// Returns what is wrong with the URL or the files of TLS.
    pub fn new(server: ForeignServer) -> Result<Self, AskError> {
        let post = Post::new(&server.url, server.files.clone(), server.timeout)?;
        Ok(Place { post, server })
    }

    /// Sends bytes with these headers, and those that say who we are.
    ///
    /// # Errors
    /// Returns why there is no answer, and whether the server may have the bytes.
    pub fn send(&self, headers: &[(&str, &str)], bytes: &[u8]) -> Result<PostAnswer, NoAnswer> {
        let authorization = self.server.login.authorization().map_err(NoAnswer::before)?;
        let further = self.server.headers.iter().map(|(name, value)| (&**name, &**value));
        let mut headers: Vec<(&str, &str)> = headers.iter().copied().chain(further).collect();
        headers.extend(authorization.as_deref().map(|text| ("Authorization", text)));
        self.post.send(&headers, bytes)
    }
}

//! Several servers in an order of preference (`--server A,B`): the first one that answers is asked. It follows nothing itself.

use std::time::Duration;

use khz_ask::{AskError, Server};

use crate::show::table::remark;

/// Servers of one command: more hubs than anybody runs side by side. Each that is away may cost some seconds in each round.
pub const SERVERS_MAX: usize = 8;

/// Servers, the preferred one first.
pub struct Preferred {
    servers: Vec<Server>,
    /// The one that has answered last.
    present: usize,
}

impl Preferred {
    /// There is at least one.
    pub fn new(servers: Vec<Server>) -> Self {
        Preferred { servers, present: 0 }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// All of them.
    pub fn all(&self) -> &[Server] {
        &self.servers
    }

    /// The server that has answered last.
    pub fn present(&self) -> &Server {
        &self.servers[self.present]
    }

    /// Its place in the list.
    pub fn place(&self) -> usize {
        self.present
    }

    /// What this server gives. If it gives something, it is the present one from now on, and a remark says so.
    ///
    /// # Errors
    /// Why it gives nothing; the present one stays.
    pub fn go_to<T>(
        &mut self,
        at: usize,
        span: Option<Duration>,
        ask: &impl Fn(&Server, Option<Duration>) -> Result<T, AskError>,
    ) -> Result<T, AskError> {
        let answer = ask(&self.servers[at], span)?;
        self.comes_to(at);
        Ok(answer)
    }

    fn comes_to(&mut self, at: usize) {
        if std::mem::replace(&mut self.present, at) != at {
            remark!("{} is asked now", self.present().url());
        }
    }

    /// What the first server gives that answers. If it is another one than before, a remark says so. If the one that has answered
    /// last has fallen silent, all others come before it: it may take seconds until it is clear that it does not answer.
    ///
    /// # Errors
    /// If none answers: why one of them may answer later, if one may; else why the first one refuses.
    pub fn first_of<T>(
        &mut self,
        span: Option<Duration>,
        is_silent: bool,
        ask: &impl Fn(&Server, Option<Duration>) -> Result<T, AskError>,
    ) -> Result<T, AskError> {
        let mut failed: Option<AskError> = None;
        let silent = Some(self.present).filter(|_| is_silent);
        let others = (0..self.servers.len()).filter(|&at| Some(at) != silent);
        for at in others.chain(silent) {
            let server = &self.servers[at];
            match ask(server, span) {
                Ok(answer) => {
                    self.comes_to(at);
                    return Ok(answer);
                }
                Err(error) => {
                    // What is final at one may come true at another one that is away now.
                    if failed.as_ref().is_none_or(|known| known.is_final() && !error.is_final()) {
                        failed = Some(error);
                    }
                }
            }
        }
        Err(failed.unwrap_or_else(|| AskError::Address("no server is named".to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Preferred {
        let server = |port: u16| Server::new(&format!("127.0.0.1:{port}"), None, None).unwrap();
        Preferred::new(vec![server(1), server(2), server(3)])
    }

    fn nobody(server: &Server) -> AskError {
        AskError::NobodyThere { url: server.url().to_owned(), reason: "refused".to_owned() }
    }

    #[test]
    fn the_first_that_answers_is_asked_and_the_preferred_one_again_when_it_is_back() {
        let mut servers = servers();
        let answers = |up: &'static [&'static str]| {
            move |server: &Server, _: Option<Duration>| match up
                .iter()
                .any(|port| server.url().contains(port))
            {
                true => Ok(server.url().to_owned()),
                false => Err(nobody(server)),
            }
        };
        for (up, expected) in [(&[":2", ":3"][..], ":2"), (&[":3"], ":3"), (&[":1", ":2", ":3"], ":1")] {
            let answered = servers.first_of(None, false, &answers(up)).unwrap();
            assert!(answered.contains(expected), "{up:?}: {answered}");
            assert!(servers.present().url().contains(expected));
        }
        // It is there still, and says nothing.
        let all = &[":1", ":2", ":3"];
        assert!(servers.first_of(None, true, &answers(all)).unwrap().contains(":2"));
        assert!(servers.first_of(None, true, &answers(&[":2"])).unwrap().contains(":2"));
        assert!(servers.first_of(None, false, &answers(all)).unwrap().contains(":1"));
        let error = servers.first_of(None, false, &answers(&[])).unwrap_err();
        assert!(matches!(&error, AskError::NobodyThere { url, .. } if url.contains(":1")), "{error}");
    }

    #[test]
    fn it_goes_to_another_one_only_if_that_gives_something() {
        let mut servers = servers();
        assert!(servers.go_to(1, None, &|server: &Server, _| Err::<(), _>(nobody(server))).is_err());
        assert_eq!(servers.place(), 0);
        let url = servers.go_to(2, None, &|server: &Server, _| Ok(server.url().to_owned())).unwrap();
        assert!(url.contains(":3") && servers.place() == 2);
    }

    #[test]
    fn a_refusal_is_final_only_if_all_refuse() {
        let mut servers = servers();
        let refused = || AskError::NotAllowed("you may not".to_owned());
        let some = |server: &Server, _| match server.url().contains(":2") {
            true => Err::<(), _>(nobody(server)),
            false => Err(refused()),
        };
        assert!(!servers.first_of(None, false, &some).unwrap_err().is_final());
        assert!(
            servers.first_of(None, false, &|_: &Server, _| Err::<(), _>(refused())).unwrap_err().is_final()
        );
    }
}

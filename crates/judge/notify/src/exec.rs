//! Runs a program for a message, one at a time: the message goes to its stdin and into its environment (`program.rs` runs it). What
//! the program does is not known here.

use std::sync::Arc;

use crate::alert::{Labels, with_external};
use crate::answer::Answer;
use crate::body;
use crate::digest::Job;
use crate::door::Door;
use crate::limits::OUTPUT_BYTES_MAX;
use crate::message::Message;
use crate::program::{Ended, Program, RunError, variable};
use crate::programs::Programs;
use crate::settings::ExecSettings;

/// The exit code by which a program asks to be run again later: EX_TEMPFAIL of sysexits.h.
const TRY_LATER: i32 = 75;

/// A program.
pub(crate) struct Exec {
    settings: ExecSettings,
    external: Arc<Labels>,
    programs: Arc<Programs>,
    output: Option<String>,
    /// The last run was cut off, and this is its second try.
    was_cut_off: bool,
}

impl Exec {
    pub fn new(settings: &ExecSettings, external: &Arc<Labels>, programs: &Arc<Programs>) -> Self {
        Exec {
            settings: settings.clone(),
            external: external.clone(),
            programs: programs.clone(),
            output: None,
            was_cut_off: false,
        }
    }
}

impl Door<Job> for Exec {
    fn send(&mut self, job: &Job) -> Answer {
        let timeout = self.settings.timeout;
        let program = Program {
            command: &self.settings.command,
            variables: environment(&job.message, &self.external),
            stdin: body::webhook(&job.message, &self.settings.name, &self.external),
            timeout,
            output_max: OUTPUT_BYTES_MAX,
        };
        let run = match self.programs.begin() {
            // It is known that nobody got the message.
            None => return Answer::Later("khz ends".to_owned(), None),
            Some(_running) => program.run(self.programs.is_over()),
        };
        let run = match run {
            Ok(run) => run,
            Err(RunError::NotStarted(problem)) => return Answer::Later(problem, None),
            Err(RunError::TooMuch(problem)) => return Answer::Refused(problem),
            Err(RunError::Lost(problem)) => return self.cut_off(problem),
        };
        let sentence = run.sentence(timeout);
        self.output = Some(run.output);
        match run.ended {
            // The program may have told somebody before khz's end stopped it.
            Ended::Stopped => Answer::Unknown(sentence, None),
            Ended::Late => self.cut_off(sentence),
            Ended::By(status) if status.code().is_none() => self.cut_off(sentence),
            Ended::By(status) => {
                self.was_cut_off = false;
                match status.code() {
                    Some(0) => Answer::Taken(sentence),
                    Some(TRY_LATER) => Answer::Later(sentence, None),
                    _ => Answer::Refused(sentence),
                }
            }
        }
    }

    fn output(&self) -> Option<String> {
        self.output.clone()
    }
}

impl Exec {
    /// The program was killed, so its effect is unknown. It runs once more, but not for ever, since it may always hang.
    fn cut_off(&mut self, sentence: String) -> Answer {
        self.was_cut_off = !self.was_cut_off;
        match self.was_cut_off {
            true => Answer::Unknown(sentence, None),
            false => Answer::Refused(format!(
                "{sentence}, for the second time; it is not run again for this message"
            )),
        }
    }
}

/// The message for programs that do not read JSON.
fn environment(message: &Message, external: &Labels) -> Vec<(String, String)> {
    let mut all = vec![
        ("KHZ_ALERT_NAME".to_owned(), message.name.as_deref().unwrap_or_default().to_owned()),
        ("KHZ_ALERT_STATUS".to_owned(), body::status(message.is_firing()).to_owned()),
        ("KHZ_ALERT_TITLE".to_owned(), message.title()),
        ("KHZ_ALERT_FIRING".to_owned(), message.firing.to_string()),
        ("KHZ_ALERT_RESOLVED".to_owned(), message.resolved.to_string()),
        ("KHZ_ALERT_REPEAT".to_owned(), u8::from(message.is_repeat).to_string()),
    ];
    let (labels, annotations) = (message.common_labels(), message.common_annotations());
    let labels = with_external(&labels, external);
    let labels = labels.iter().map(|(name, value)| ("LABEL", *name, *value));
    let annotations = annotations.iter().map(|(name, value)| ("ANNOTATION", name.as_str(), value.as_str()));
    for (kind, name, value) in labels.chain(annotations) {
        // Other labels are only in the JSON.
        all.extend(variable(kind, name, value));
    }
    all.iter_mut().for_each(|(_, value)| value.retain(|c| c != '\0'));
    all
}

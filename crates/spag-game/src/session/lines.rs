//! A session by lines of JSON.

use std::io::{self, BufRead, Read, Write};

use super::{Code, Problem, Reply, Session};

/// The most bytes of a request.
const MAX_LINE: usize = 16 << 20;

impl Session {
    /// Answers line by line until the input ends or a request closes the session.
    ///
    /// # Errors
    /// The input cannot be read, or the output not written.
    pub fn serve(&mut self, input: &mut impl BufRead, output: &mut impl Write) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let reply = if line.len() > MAX_LINE && line.last() != Some(&b'\n') {
                input.skip_until(b'\n')?;
                let message = format!("the line has more than {MAX_LINE} bytes, the most of a request");
                Reply::Line(Problem::new(Code::InvalidJson, message).to_line())
            } else {
                respond(self, &line)
            };
            let Reply::Line(mut answer) = reply else { return Ok(()) };
            answer.push('\n');
            output.write_all(answer.as_bytes())?;
            output.flush()?;
        }
    }
}

/// The answer to a line. A fault of a game is an answer too, and ends that game.
fn respond(session: &mut Session, line: &[u8]) -> Reply {
    spag_io::catch_panic(|| session.respond(line)).unwrap_or_else(|fault| {
        session.abandon();
        Reply::Line(Problem::new(Code::Execution, format!("the game failed: {fault}; send a reset")).to_line())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_an_answer_until_the_session_is_closed() {
        let mut session = Session::new("nim", None).unwrap();
        let lines = "{\"type\":\"reset\",\"seed\":7,\"options\":{\"piles\":[1]}}\nno json\n{\"type\":\"step\",\"action\":\"[0 1]\"}\n{\"type\":\"close\"}\n{\"type\":\"reset\"}\n";
        let mut output = Vec::new();
        session.serve(&mut lines.as_bytes(), &mut output).unwrap();
        let answers: Vec<_> = std::str::from_utf8(&output).unwrap().lines().collect();
        assert_eq!(answers.len(), 3, "{answers:?}");
        assert!(answers[0].contains("\"done\":false") && answers[2].contains("\"done\":true"), "{answers:?}");
        assert!(answers[1].contains(Code::InvalidJson.name()), "{answers:?}");
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_is_answered() {
        let mut session = Session::new("nim", None).unwrap();
        let mut input = vec![b' '; MAX_LINE + 2];
        input.extend_from_slice(b"\n{\"type\":\"reset\",\"seed\":7}\n");
        let mut output = Vec::new();
        session.serve(&mut &input[..], &mut output).unwrap();
        let answers: Vec<_> = std::str::from_utf8(&output).unwrap().lines().collect();
        assert_eq!(answers.len(), 2, "{answers:?}");
        assert!(answers[0].contains("the most of a request") && answers[1].contains("observation"), "{answers:?}");
    }
}

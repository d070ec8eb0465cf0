//! A file of lines that another process appends to: each line is read once.

use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use spag_io::EnclosedFolder;

/// Bytes of a line. Longer ones are skipped.
const MAX_LINE: u64 = 1 << 20;
/// Bytes before the place of reading that must be as they were.
const REMEMBERED: usize = 64;

/// What tells a file from another one of its name.
pub type FileIdentity = (u64, u64);
/// What a file looked like: its identity, its length and its time.
type Version = (FileIdentity, u64, Option<SystemTime>);

/// Reads the lines that a file gains.
#[derive(Clone, Debug)]
pub struct Follower {
    folder: EnclosedFolder,
    /// The file's path in it.
    path: PathBuf,
    /// The file when it was last read to its end.
    seen: Option<Version>,
    identity: Option<FileIdentity>,
    /// Where the next line begins.
    offset: u64,
    /// The bytes before it.
    before: Vec<u8>,
    /// Whether the place is within a line that is too long.
    is_skipping: bool,
}

/// A line of a file.
pub enum Line<'a> {
    /// Its bytes without the line break, and the offset at which it begins.
    Whole(&'a [u8], u64),
    /// It is too long to be read.
    TooLong,
}

/// What became of a file since the last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All its whole lines have been read.
    End,
    /// There was no time for the rest.
    More,
    /// It is another file than before, or was cut: what was read of it no longer holds. Nothing was read.
    Restarted,
    /// There is no such file.
    Gone,
}

impl Follower {
    /// A follower of the file at `path` in a folder.
    pub fn new(folder: &EnclosedFolder, path: impl Into<PathBuf>) -> Self {
        let (folder, path) = (folder.clone(), path.into());
        Self { folder, path, seen: None, identity: None, offset: 0, before: Vec::new(), is_skipping: false }
    }

    /// Whether the file is there.
    pub fn is_there(&self) -> bool {
        self.folder.has_file(&self.path)
    }

    /// When the file was last changed.
    pub fn changed(&self) -> Option<SystemTime> {
        self.folder.open(&self.path).ok()?.metadata().ok()?.modified().ok()
    }

    /// Begins again at the beginning.
    pub fn restart(&mut self) {
        *self = Self::new(&self.folder, std::mem::take(&mut self.path));
    }

    /// Reads new lines until the end of the file or `deadline`. A last line without a line break is left for later: it may
    /// be half-written.
    ///
    /// # Errors
    /// The file cannot be read. Links are not followed.
    pub fn read(&mut self, deadline: Instant, mut each: impl FnMut(Line<'_>)) -> io::Result<Found> {
        let mut file = match self.folder.open(&self.path) {
            // Nothing is there, or no regular file.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
                return Ok(self.gone());
            }
            opened => opened?,
        };
        let found = file.metadata()?;
        let (version, identity) = (version(&found), identity(&found));
        if self.seen == Some(version) {
            return Ok(Found::End);
        }
        if self.identity.is_some_and(|before| before != identity) || !self.is_as_before(&mut file)? {
            return Ok(Found::Restarted);
        }
        self.identity = Some(identity);
        file.seek(SeekFrom::Start(self.offset))?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut line = Vec::new();
        while Instant::now() < deadline {
            line.clear();
            let read = file.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
            let is_whole = line.ends_with(b"\n");
            if read == 0 || (!is_whole && read < MAX_LINE && !self.is_skipping) {
                self.seen = Some(version);
                return Ok(Found::End);
            }
            match line.split_last() {
                Some((_, text)) if is_whole && !self.is_skipping => each(Line::Whole(text, self.offset)),
                _ if !self.is_skipping => each(Line::TooLong),
                _ => {}
            }
            self.is_skipping = !is_whole;
            self.offset += read;
            self.remember(&line);
        }
        Ok(Found::More)
    }

    fn gone(&mut self) -> Found {
        if self.identity.is_some() { Found::Restarted } else { Found::Gone }
    }

    fn remember(&mut self, line: &[u8]) {
        let last = &line[line.len().saturating_sub(REMEMBERED)..];
        self.before.extend_from_slice(last);
        let extra = self.before.len().saturating_sub(REMEMBERED);
        self.before.drain(..extra);
    }

    /// Whether the bytes before the place of reading are those that were read: a file that was cut and has grown since is
    /// another one.
    fn is_as_before(&self, file: &mut File) -> io::Result<bool> {
        let mut before = vec![0; self.before.len()];
        file.seek(SeekFrom::Start(self.offset - before.len() as u64))?;
        match file.read_exact(&mut before) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            read => read.map(|()| before == self.before),
        }
    }
}

fn version(found: &Metadata) -> Version {
    (identity(found), found.len(), found.modified().ok())
}

#[cfg(unix)]
pub(crate) fn identity(found: &Metadata) -> FileIdentity {
    use std::os::unix::fs::MetadataExt;
    (found.dev(), found.ino())
}

/// Without inode numbers, a file that was replaced is known by its content only.
#[cfg(not(unix))]
pub(crate) fn identity(_: &Metadata) -> FileIdentity {
    (0, 0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    fn read(follower: &mut Follower) -> (Found, Vec<String>) {
        let mut lines = Vec::new();
        let found = follower.read(Instant::now() + Duration::from_secs(60), |line| {
            lines.push(match line {
                Line::Whole(text, at) => format!("{at} {}", String::from_utf8_lossy(text)),
                Line::TooLong => "too long".into(),
            });
        });
        (found.unwrap(), lines)
    }

    #[test]
    fn each_line_is_read_once_and_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut follower = Follower::new(&EnclosedFolder::new(folder.path()), "lines");
        assert_eq!(read(&mut follower), (Found::Gone, vec![]));
        fs::write(&path, "one\ntw").unwrap();
        assert_eq!(read(&mut follower), (Found::End, vec!["0 one".into()]));
        assert_eq!(read(&mut follower), (Found::End, vec![]));
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"o\n\nfour\n").unwrap();
        assert_eq!(read(&mut follower), (Found::End, vec!["4 two".into(), "8 ".into(), "9 four".into()]));
        // A resumed run cuts a torn line.
        file.write_all(b"torn").unwrap();
        assert_eq!(read(&mut follower).1, Vec::<String>::new());
        file.set_len(14).unwrap();
        file.write_all(b"five\n").unwrap();
        assert_eq!(read(&mut follower), (Found::End, vec!["14 five".into()]));
    }

    #[test]
    fn huge_lines_are_skipped_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        fs::write(&path, format!("a\n{}\nb\n{}", "x".repeat(3 << 20), "y".repeat(2 << 20))).unwrap();
        let mut follower = Follower::new(&EnclosedFolder::new(folder.path()), "lines");
        let (found, lines) = read(&mut follower);
        assert_eq!((found, lines.len()), (Found::End, 4));
        assert_eq!((&*lines[0], &*lines[1], &*lines[3]), ("0 a", "too long", "too long"));
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"rest\nc\n").unwrap();
        let (_, lines) = read(&mut follower);
        assert!(lines.len() == 1 && lines[0].ends_with(" c"), "{lines:?}");
    }

    #[test]
    fn replaced_cut_and_removed_files_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        fs::write(&path, "one\ntwo\n").unwrap();
        let mut follower = Follower::new(&EnclosedFolder::new(folder.path()), "lines");
        read(&mut follower);
        // Written anew in place, longer than before.
        fs::write(&path, "uno\ndue\ntre\n").unwrap();
        assert_eq!(read(&mut follower), (Found::Restarted, vec![]));
        follower.restart();
        assert_eq!(read(&mut follower).1.len(), 3);
        // Replaced by a rename.
        fs::write(folder.path().join("new"), "uno\ndue\ntre\nquattro\n").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(read(&mut follower).0, Found::Restarted);
        follower.restart();
        assert_eq!(read(&mut follower).1.len(), 4);
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&mut follower).0, Found::Restarted);
        follower.restart();
        assert_eq!(read(&mut follower).0, Found::Gone);
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert_eq!(read(&mut follower).0, Found::Gone);
    }

    #[test]
    fn without_time_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        fs::write(&path, "one\n").unwrap();
        let mut follower = Follower::new(&EnclosedFolder::new(folder.path()), "lines");
        assert_eq!(follower.read(Instant::now(), |_| ()).unwrap(), Found::More);
        assert_eq!(read(&mut follower).1, ["0 one"]);
    }
}

//! Checks of a command's input and output paths: no output is an input, and no model or results are overwritten.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::contents::Contents;
use crate::error::{Error, Result};
use crate::identity::{is_same_file, resolve};
use crate::in_place::is_stream;

/// The files and folders of a command, by the names of their flags or settings.
///
/// Add inputs first. Each output is then compared with them and with earlier outputs by file identity, through symbolic and hard
/// links. Pipes and devices are exempt.
///
/// ```
/// use spag_io::CommandFiles;
///
/// let folder = tempfile::tempdir()?;
/// let rows = folder.path().join("rows.json");
/// std::fs::write(&rows, "[]")?;
/// let mut files = CommandFiles::default().read("--input", &rows);
/// assert!(files.write_file("--output", &rows).is_err());
/// assert!(files.write_file("--output", folder.path().join("new.json")).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CommandFiles {
    inputs: Vec<Named>,
    outputs: Vec<Named>,
}

/// A path with its flag or setting.
#[derive(Clone, Debug)]
struct Named {
    flag: String,
    path: PathBuf,
}

impl CommandFiles {
    /// Adds an input: a file, or a folder with all its files.
    #[must_use]
    pub fn read(mut self, flag: &str, path: impl AsRef<Path>) -> Self {
        self.inputs.push(Named { flag: flag.to_owned(), path: path.as_ref().to_owned() });
        self
    }

    /// Adds the inputs of one flag.
    #[must_use]
    pub fn read_all(self, flag: &str, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        paths.into_iter().fold(self, |files, path| files.read(flag, path))
    }

    /// Checks and adds a file that is written.
    ///
    /// # Errors
    /// [`Error::Output`] if it is an input, in a folder that is an input, an output already, a symbolic link, or a file of a model or
    /// of results.
    pub fn write_file(&mut self, flag: &str, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let refused = |problem: String| Err(Error::Output { path: path.to_owned(), flag: flag.to_owned(), problem });
        if path.as_os_str().is_empty() {
            return refused("is empty; name a file".to_owned());
        }
        if is_stream(path) {
            return Ok(());
        }
        let is_read = |input: &&Named| is_same_file(path, &input.path) || is_inside(path, &input.path);
        if let Some(Named { flag, .. }) = self.inputs.iter().find(is_read) {
            return refused(format!("would overwrite what {flag} reads; name a file elsewhere"));
        }
        if let Some(Named { flag: other, .. }) = self.outputs.iter().find(|other| is_same_file(path, &other.path)) {
            return refused(format!("is the file of {other} too; name two files"));
        }
        if let Ok(target) = fs::read_link(path) {
            return refused(format!("is a link to {}; name that file, or delete the link", target.display()));
        }
        if let (true, Some(folder), Some(name)) =
            (path.exists(), path.parent(), path.file_name().and_then(OsStr::to_str))
        {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let is_of = |(kind, mark): &(Contents, String)| kind.has(name) && mark != name;
            if let Some((kind, mark)) = Contents::of(folder)?.into_iter().find(is_of) {
                return refused(format!("is a file of {kind} (beside {mark}); name another file"));
            }
        }
        self.outputs.push(Named { flag: flag.to_owned(), path: path.to_owned() });
        Ok(())
    }

    /// Checks and adds an output folder for files of the kinds `written`. It may already hold files of the kinds `kept`, which the
    /// command resumes, keeps or is told to replace.
    ///
    /// # Errors
    /// [`Error::Output`] if it is an input, contains an input that would be overwritten, is a file, or holds a model or results
    /// of other kinds; [`Error::Io`] if it cannot be listed.
    pub fn write_folder(
        &mut self,
        flag: &str,
        path: impl AsRef<Path>,
        written: &[Contents],
        kept: &[Contents],
    ) -> Result<()> {
        let path = path.as_ref();
        let refused = |problem: String| Err(Error::Output { path: path.to_owned(), flag: flag.to_owned(), problem });
        if path.as_os_str().is_empty() {
            return refused("is empty; name a folder".to_owned());
        }
        if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
            return refused("is a file; name a folder".to_owned());
        }
        for Named { flag, path: input } in &self.inputs {
            if is_same_file(path, input) {
                return refused(format!("is the folder that {flag} reads; name another folder"));
            }
            if let Some(name) = entry_with(path, input).filter(|name| written.iter().any(|kind| kind.has(name))) {
                return refused(format!(
                    "has {name}, which {flag} reads and which may be replaced; name another folder"
                ));
            }
        }
        if let Some((kind, name)) = Contents::of(path)?.into_iter().find(|(kind, _)| !kept.contains(kind)) {
            let replace = match written.contains(&Contents::Model) {
                true => ", or replace what is there with --overwrite_output_dir True",
                false => "",
            };
            return refused(format!("holds {kind} ({name}); name another folder{replace}"));
        }
        self.outputs.push(Named { flag: flag.to_owned(), path: path.to_owned() });
        Ok(())
    }
}

/// Whether a path is inside `folder`, or is the target of a link in the folder.
fn is_inside(path: &Path, folder: &Path) -> bool {
    folder.is_dir()
        && (entry_with(folder, path).is_some()
            || fs::read_dir(folder).is_ok_and(|mut entries| {
                entries.any(|entry| entry.is_ok_and(|entry| is_same_file(path, &entry.path())))
            }))
}

/// The name of the entry of `folder` that is or contains `path`, if any.
fn entry_with(folder: &Path, path: &Path) -> Option<String> {
    let path = resolve(path);
    let mut below = path.as_path();
    while let Some(above) = below.parent() {
        if is_same_file(above, folder) {
            return below.file_name().map(|name| name.to_string_lossy().into_owned());
        }
        below = above;
    }
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{Classify, ErrorClass};

    /// A file in a folder of inputs, and a folder with a model.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, file) in [("data", "rows.json"), ("model", "model.safetensors"), ("model", "notes.txt")] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join(file), "kept").unwrap();
        }
        folder
    }

    #[track_caller]
    fn refused(result: Result<()>, reason: &str) {
        let error = result.unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(error.class(), ErrorClass::BadInput);
    }

    #[test]
    fn file_is_no_input_under_any_name() {
        let folder = folder();
        let root = folder.path();
        let rows = root.join("data/rows.json");
        symlink(&rows, root.join("link.json")).unwrap();
        symlink(root.join("data"), root.join("linked")).unwrap();
        fs::hard_link(&rows, root.join("hard.json")).unwrap();
        for name in ["data/rows.json", "link.json", "linked/rows.json", "hard.json", "data/../data/./rows.json"] {
            let mut files = CommandFiles::default().read("--input", &rows);
            refused(files.write_file("--output", root.join(name)), "--output would overwrite what --input reads");
        }
        // A folder, its contents, and the targets of its links.
        for name in ["data/rows.json", "linked/new/rows.json", "data/new.json", "hard.json", "link.json"] {
            let mut files = CommandFiles::default().read("--data", root.join("data"));
            refused(files.write_file("--output", root.join(name)), "what --data reads");
        }
        let mut files = CommandFiles::default().read("--input", &rows).read("--stream", "/dev/null");
        files.write_file("--output", root.join("new/out.json")).unwrap();
        files.write_file("--outcomes", "/dev/null").unwrap();
        refused(files.write_file("--outcomes", root.join("new/out.json")), "is the file of --output too");
        refused(files.write_file("--outcomes", ""), "is empty");
    }

    #[test]
    fn file_of_a_model_and_a_link_are_kept() {
        let folder = folder();
        let root = folder.path();
        symlink(root.join("absent"), root.join("link")).unwrap();
        let mut files = CommandFiles::default();
        fs::write(root.join("model/config.json"), "{}").unwrap();
        refused(files.write_file("--output", root.join("model/config.json")), "is a file of a model");
        refused(files.write_file("--output", root.join("link")), "is a link to");
        files.write_file("--output", root.join("model/notes.txt")).unwrap();
    }

    #[test]
    fn folder_is_no_input_and_holds_nothing_else() {
        use Contents::{Games, Model, Training};

        let folder = folder();
        let root = folder.path();
        let model = root.join("model");
        symlink(&model, root.join("link")).unwrap();
        for name in ["model", "link", "data/../model"] {
            let mut files = CommandFiles::default().read("--model", &model);
            refused(files.write_folder("--output_dir", root.join(name), &[Model], &Contents::ALL), "--model reads");
            let mut files = CommandFiles::default();
            refused(
                files.write_folder("--output_dir", root.join(name), &[Model], &[Games]),
                "holds a model (model.safetensors); name another folder, or replace",
            );
            files.write_folder("--output_dir", root.join(name), &[Model], &Contents::ALL).unwrap();
        }
        // An input inside the folder conflicts if it has the name of an output.
        let mut files = CommandFiles::default().read("--model", root.join("out/checkpoint-3"));
        refused(
            files.write_folder("--output_dir", root.join("out"), &[Training], &[]),
            "has checkpoint-3, which --model",
        );
        let mut files = CommandFiles::default().read("--data", root.join("data/rows.json"));
        files.write_folder("--output_dir", root.join("data"), &[Training], &[]).unwrap();
        refused(files.write_folder("--output_dir", "", &[Training], &[]), "is empty");
        refused(files.write_folder("--output_dir", root.join("data/rows.json"), &[Training], &[]), "is a file");
    }
}

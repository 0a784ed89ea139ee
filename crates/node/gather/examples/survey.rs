//! Writes the texts of this machine's surveys below a folder, as captured hosts have them: for `cargo xtask capture`.
//! Says what it wrote, one path a line.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| std::io::Error::other("usage: survey FOLDER"))?;
    for (path, text) in khz_gather::survey_texts() {
        let file = folder.join(path);
        std::fs::create_dir_all(file.parent().unwrap_or(&folder))?;
        std::fs::write(&file, text)?;
        println!("{path}");
    }
    Ok(())
}

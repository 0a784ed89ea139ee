//! Texts of surveys one after the other, see [`khz_fuzz::texts`]; the first byte says of which. The same bytes as a list of
//! mounts, as a file of a tree, and as records of users that are logged in.

#![no_main]

use khz_parse::{KernelFile, Pieces, columns, files, logins, mountinfo, tree};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for mount in mountinfo::chosen(bytes) {
        assert!(!mount.place.is_empty() && !mount.fs_type.is_empty());
    }
    if let Ok(Some(sessions)) = logins::sessions_of_utmp(bytes) {
        assert!(logins::users(&sessions) <= sessions.len());
    }
    if let Some(login) = logins::session_of_logind(bytes) {
        assert!(!login.user.is_empty());
    }
    let Some((first, texts)) = bytes.split_first() else { return };
    let is_surveyed = |file: &&&'static KernelFile| matches!(file.pieces, Pieces::Survey { .. });
    let files: Vec<_> = files().iter().filter(is_surveyed).collect();
    khz_fuzz::texts(files[usize::from(*first) % files.len()], texts);
    // The same bytes as what a small file says.
    let entries = files.iter().flat_map(|file| file.groups).flat_map(|group| group.entries);
    for entry in entries {
        let mut word = Vec::new();
        tree::number_word(entry, texts, b"on", &mut word);
        assert!(!word.is_empty() && !word.contains(&b' '));
        if let Some((_, place)) = tree::place_of(entry) {
            for name in columns::names_under(texts, place.under) {
                assert!(!name.contains(&b'\n'));
            }
            if let Ok(Some(word)) = columns::word_at(texts, &tree::file_of(place.line, b"on"), place) {
                assert!(!word.is_empty() && !word.contains(&b'\n'));
            }
        }
    }
});

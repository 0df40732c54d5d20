//! DataFusion's own SQL tests parse: the dialect takes away only what it refuses on purpose.

use std::path::{Path, PathBuf};

use super::*;

/// The folder of the conformance material, or `None` (said by name) if it is not there.
fn conformance(test: &str) -> Option<PathBuf> {
    let beside = ["../../../shared/conformance", "../../../../shared/conformance"];
    let mut folders: Vec<PathBuf> =
        beside.iter().map(|path| Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).collect();
    if let Some(folder) = std::env::var_os("LAKESERVE_CONFORMANCE") {
        folders = vec![PathBuf::from(folder)];
    }
    let found = folders.iter().find(|folder| folder.join("suites/datafusion_slt").is_dir()).cloned();
    if found.is_none() {
        eprintln!("SKIPPED {test}: no conformance material at {}", folders.first()?.display());
    }
    found
}

/// The statements that must succeed: those after `statement ok` and `query …`.
fn statements(text: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let wanted =
            line.starts_with("statement ok") || (line.starts_with("query ") && !line.starts_with("query error"));
        if wanted {
            let sql: Vec<&str> = lines.by_ref().take_while(|line| !line.trim().is_empty() && *line != "----").collect();
            statements.push(sql.join("\n"));
        }
    }
    statements
}

#[test]
fn datafusions_statements_parse() {
    let Some(folder) = conformance("datafusions_statements_parse") else { return };
    let (mut parsed, mut refused) = (0, Vec::new());
    let mut files: Vec<_> =
        std::fs::read_dir(folder.join("suites/datafusion_slt")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        for sql in statements(&std::fs::read_to_string(&file).unwrap()) {
            match parse(&sql, &ParseLimits::default()) {
                Ok(_) => parsed += 1,
                Err(error) => {
                    refused.push((error.kind(), format!("{}: {error}: {sql}", file.file_name().unwrap().display())))
                }
            }
        }
    }
    for (kind, text) in &refused {
        eprintln!("{kind} {text}");
    }
    // Writes to files are refused; nothing may fail to parse.
    assert!(
        refused.iter().all(|(kind, _)| *kind == ErrorKind::Unsupported),
        "{} of {} do not parse",
        refused.len(),
        refused.len() + parsed
    );
    assert!(parsed > 3000, "only {parsed} statements found");
}

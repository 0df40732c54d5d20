//! `lakeserve query`: statements answered in this process, or by a broker.

mod embedded;
mod output;
mod remote;

use std::io::Read;
use std::path::Path;

use crate::cli::QueryArgs;
use crate::failure::Failure;

/// Answers the statements one after the other; ends at the first error.
///
/// # Errors
/// Usage when arguments or configuration are wrong, failed when a statement fails.
pub fn run(args: QueryArgs) -> Result<(), Failure> {
    let sql = match (&args.sql, &args.file) {
        (Some(sql), _) => sql.clone(),
        (None, Some(file)) => script(file)?,
        (None, None) => return Err(Failure::usage("there is no statement: give SQL, or a script with -f")),
    };
    let runtime = crate::runtime()?;
    let result = match args.url.clone() {
        Some(url) => runtime.block_on(remote::run(&url, &sql, &args)),
        None => runtime.block_on(embedded::run(&sql, args)),
    };
    // Not shut down: a table that is still being opened would report that as a panic. The process ends.
    std::mem::forget(runtime);
    result
}

fn script(file: &Path) -> Result<String, Failure> {
    let mut sql = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut sql).map(drop)
    } else {
        std::fs::read_to_string(file).map(|text| sql = text)
    };
    read.map_err(|error| Failure::usage(format!("the script {} cannot be read: {error}", file.display())))?;
    Ok(sql)
}

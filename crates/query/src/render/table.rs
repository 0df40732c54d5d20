//! A table for people: aligned columns, numbers to the right, long values wrapped, never cut.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use lakeserve_common::error::Result;

use super::Spelling;
use super::row::columns;

/// The widest a column may become; longer values go on in the next line of their cell.
const WIDEST: usize = 80;

/// The rows as a text table with column names above and the number of rows below, ending in a line feed.
///
/// # Errors
/// `Unsupported` naming the column whose type has no spelling (unions).
pub fn text_table(schema: &Schema, batches: &[RecordBatch]) -> Result<String> {
    let mut rows: Vec<Vec<Vec<String>>> = Vec::new();
    for batch in batches {
        let cells = columns(batch, Spelling::Text)?;
        let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
        let mut text = Vec::new();
        for row in 0..batch.num_rows() {
            let values = cells.iter().zip(&nulls).map(|(cell, nulls)| {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return vec!["NULL".to_owned()];
                }
                text.clear();
                cell(row, &mut text);
                wrap(&String::from_utf8_lossy(&text))
            });
            rows.push(values.collect());
        }
    }
    let names: Vec<_> = schema.fields().iter().map(|field| wrap(field.name())).collect();
    let widths: Vec<usize> = (0..names.len())
        .map(|column| {
            let cells = rows.iter().map(|row| &row[column]).chain([&names[column]]);
            cells.flatten().map(|line| line.chars().count()).max().unwrap_or_default()
        })
        .collect();
    let right: Vec<bool> = schema.fields().iter().map(|field| is_number(field.data_type())).collect();

    let rule = |left: &str, middle: &str, end: &str| {
        let dashes: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{end}\n", dashes.join(middle))
    };
    let mut out = String::new();
    if !names.is_empty() {
        out.push_str(&rule("┌", "┬", "┐"));
        put_row(&names, &widths, &right, &mut out);
        out.push_str(&rule("├", "┼", "┤"));
        for row in &rows {
            put_row(row, &widths, &right, &mut out);
        }
        out.push_str(&rule("└", "┴", "┘"));
    }
    out.push_str(&format!("{} {}\n", rows.len(), if rows.len() == 1 { "row" } else { "rows" }));
    Ok(out)
}

fn put_row(cells: &[Vec<String>], widths: &[usize], right: &[bool], out: &mut String) {
    let height = cells.iter().map(Vec::len).max().unwrap_or_default();
    for line in 0..height {
        for ((cell, &width), &right) in cells.iter().zip(widths).zip(right) {
            let text = cell.get(line).map_or("", String::as_str);
            let padding = " ".repeat(width - text.chars().count());
            out.push_str("│ ");
            out.push_str(if right { &padding } else { text });
            out.push_str(if right { text } else { &padding });
            out.push(' ');
        }
        out.push_str("│\n");
    }
}

/// The lines of a cell: at line feeds, and where a line would grow too wide. Control characters are shown escaped,
/// so that a value can neither move the cursor nor break the frame.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut current = String::new();
        let mut width = 0;
        for character in line.chars() {
            let shown: String =
                if character.is_control() { character.escape_default().collect() } else { character.into() };
            let shown_width = shown.chars().count();
            if width + shown_width > WIDEST {
                lines.push(std::mem::take(&mut current));
                width = 0;
            }
            current.push_str(&shown);
            width += shown_width;
        }
        lines.push(current);
    }
    lines
}

fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_number(value),
        DataType::RunEndEncoded(_, value) => is_number(value.data_type()),
        other => other.is_numeric(),
    }
}

//! The token level: the text is cut into statements, and bounds are checked that must hold before
//! the parser and the destructors of its trees may recurse.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use lakeserve_common::error::{Error, ErrorKind, Result};

use super::ParseLimits;
use crate::error::too_complex;

/// Names that begin so are ours: stand-ins and hidden columns.
pub(super) const RESERVED_PREFIX: &str = "__lakeserve";

/// Most ANDs and ORs in one statement; their chains are regrouped, so only memory bounds them.
const MAX_LOGICAL: usize = 100_000;
/// Most BETWEENs in one statement, each of which may deepen the tree by one.
const MAX_BETWEEN: usize = 10_000;
/// Most tokens of one expression between commas, parentheses, ANDs, ORs and clauses.
const MAX_RUN: usize = 20_000;

/// One statement's tokens without white space and comments, and its text.
pub(super) struct Chunk<'a> {
    pub tokens: Vec<TokenWithSpan>,
    pub text: &'a str,
}

/// Cuts the text at semicolons; empty statements vanish.
pub(super) fn chunks<'a>(sql: &'a str, limits: &ParseLimits) -> Result<Vec<Chunk<'a>>> {
    if sql.len() > limits.bytes {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("the statement has {} bytes, more than the {} allowed", sql.len(), limits.bytes),
        )
        .with_hint("send long lists of values as parameters or join with a table"));
    }
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| Error::new(ErrorKind::Parse, lower_location(&error.message, error.location)))?;
    let mut places = Places::new(sql);
    let mut chunks = Vec::new();
    let mut current: Vec<TokenWithSpan> = Vec::new();
    let mut start = 0;
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::SemiColon | Token::EOF => {
                let end = if token.token == Token::EOF { sql.len() } else { places.offset(token.span.start) };
                push(&mut chunks, &mut current, sql, start, end);
            }
            _ => {
                if current.is_empty() {
                    start = places.offset(token.span.start);
                }
                current.push(token);
            }
        }
    }
    push(&mut chunks, &mut current, sql, start, sql.len());
    for chunk in &chunks {
        check_bounds(&chunk.tokens, limits)?;
        check_reserved(&chunk.tokens)?;
    }
    Ok(chunks)
}

fn push<'a>(chunks: &mut Vec<Chunk<'a>>, current: &mut Vec<TokenWithSpan>, sql: &'a str, start: usize, end: usize) {
    if !current.is_empty() {
        chunks.push(Chunk { tokens: std::mem::take(current), text: sql.get(start..end).unwrap_or(sql).trim() });
    }
}

fn lower_location(message: &str, location: Location) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    format!("{first}{} at line {}, column {}", letters.as_str(), location.line, location.column)
}

/// Line and column to byte offset, for ascending places.
struct Places<'a> {
    text: &'a str,
    offset: usize,
    line: u64,
    column: u64,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, offset: 0, line: 1, column: 1 }
    }

    fn offset(&mut self, place: Location) -> usize {
        while (self.line, self.column) < (place.line, place.column) {
            let Some(letter) = self.text.get(self.offset..).and_then(|rest| rest.chars().next()) else { break };
            self.offset += letter.len_utf8();
            if letter == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.offset
    }
}

fn check_reserved(tokens: &[TokenWithSpan]) -> Result<()> {
    for token in tokens {
        if let Token::Word(word) = &token.token
            && word.value.get(..RESERVED_PREFIX.len()).is_some_and(|head| head.eq_ignore_ascii_case(RESERVED_PREFIX))
        {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the name {} is reserved: names beginning with {RESERVED_PREFIX} are internal", word.value),
            ));
        }
    }
    Ok(())
}

/// Whatever makes the parser recurse without counting, or its trees lean to one side without end,
/// costs at least one token; these counts bound both.
fn check_bounds(tokens: &[TokenWithSpan], limits: &ParseLimits) -> Result<()> {
    let mut depth = 0_usize;
    let mut runs: Vec<usize> = vec![0];
    let (mut logical, mut between, mut joins, mut sets) = (0, 0, 0, 0);
    let (mut explains, mut intervals, mut types, mut empty) = (0, 0, 0, 0);
    let mut previous = Keyword::NoKeyword;
    let mut after_bracket = false;
    for token in tokens {
        let mut keyword = Keyword::NoKeyword;
        let mut bracket = false;
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                depth += 1;
                bracket = token.token == Token::LBracket;
                if let Some(run) = runs.last_mut() {
                    *run += 1;
                }
                runs.push(0);
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                depth = depth.saturating_sub(1);
                empty += usize::from(after_bracket);
                if runs.len() > 1 {
                    runs.pop();
                }
            }
            Token::Comma => reset(&mut runs),
            Token::Word(word) if word.quote_style.is_none() => {
                keyword = word.keyword;
                match keyword {
                    Keyword::CASE => depth += 1,
                    Keyword::END => depth = depth.saturating_sub(1),
                    Keyword::AND | Keyword::OR => logical += 1,
                    Keyword::BETWEEN => between += 1,
                    Keyword::JOIN | Keyword::APPLY | Keyword::STRAIGHT_JOIN => joins += 1,
                    Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS => sets += 1,
                    Keyword::EXPLAIN | Keyword::DESCRIBE | Keyword::DESC if previous == keyword => explains += 1,
                    Keyword::PREPARE => explains += 1,
                    Keyword::INTERVAL if previous == keyword => intervals += 1,
                    _ => {}
                }
                if starts_anew(keyword) { reset(&mut runs) } else { step(&mut runs) }
            }
            Token::Lt => {
                types +=
                    usize::from(matches!(previous, Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP | Keyword::NESTED));
                step(&mut runs);
            }
            Token::VerticalBarRightAngleBracket => {
                sets += 1;
                reset(&mut runs);
            }
            _ => step(&mut runs),
        }
        previous = keyword;
        after_bracket = bracket;
        if depth > limits.depth {
            return Err(too_complex(&format!("nested deeper than {} levels", limits.depth)));
        }
        if runs.last().is_some_and(|run| *run > MAX_RUN) {
            return Err(too_complex(&format!("one expression has more than {MAX_RUN} words and signs")));
        }
    }
    let bounds = [
        (logical, MAX_LOGICAL, "ANDs and ORs"),
        (between, MAX_BETWEEN, "BETWEENs"),
        (joins, limits.relations, "joins"),
        (sets, limits.relations, "set operations"),
        (explains, 8, "nested EXPLAINs or PREPAREs"),
        (intervals, 8, "nested INTERVALs"),
        (types, limits.depth, "nested types"),
        (empty, limits.depth, "empty brackets"),
    ];
    match bounds.iter().find(|(count, most, _)| count > most) {
        Some((_, most, what)) => Err(too_complex(&format!("more than {most} {what}"))),
        None => Ok(()),
    }
}

fn step(runs: &mut [usize]) {
    if let Some(run) = runs.last_mut() {
        *run += 1;
    }
}

fn reset(runs: &mut [usize]) {
    if let Some(run) = runs.last_mut() {
        *run = 0;
    }
}

/// After these words no operator reaches back to what stands before them, except AND and OR, whose
/// chains are counted apart.
fn starts_anew(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::AND
            | Keyword::OR
            | Keyword::SELECT
            | Keyword::FROM
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE
            | Keyword::ON
            | Keyword::JOIN
            | Keyword::UNION
            | Keyword::INTERSECT
            | Keyword::EXCEPT
            | Keyword::VALUES
    )
}

//! Time travel, recognised on the tokens: `t FOR VERSION AS OF 3` and its kin become a stand-in
//! table with the alias `t`, and a [`VersionedTable`] that says what it stands for. (The parser knows
//! only some of these forms, and the planner drops them.)

use arrow::compute::kernels::cast_utils::string_to_datetime;
use chrono::Utc;
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use lakeserve_common::error::{Error, ErrorKind, Result};

use super::tokens::RESERVED_PREFIX;
use super::{VersionChoice, VersionedTable};

/// Which kind of value follows `AS OF`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clock {
    Version,
    Time,
}

/// A clause found at some token: its kind, whether it began with FOR, and how many words it has.
struct Clause {
    clock: Clock,
    certain: bool,
    words: usize,
    name: &'static str,
}

/// Replaces each time-travel clause. Stand-ins are numbered from `first`.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>, first: usize) -> Result<(Vec<TokenWithSpan>, Vec<VersionedTable>)> {
    let mut output: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut versions = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let Some(clause) = clause_at(&tokens, at)? else {
            output.push(token.clone());
            at += 1;
            continue;
        };
        let value_at = at + clause.words;
        let Some((choice, length)) = value(&tokens, value_at, clause.clock, clause.name)? else {
            if clause.certain {
                return Err(bad_value(&clause, tokens.get(value_at)));
            }
            output.push(token.clone());
            at += 1;
            continue;
        };
        let place = token.clone();
        let name = take_table_name(&mut output, &place, clause.name)?;
        let placeholder = format!("{RESERVED_PREFIX}_at_{}", first + versions.len());
        output.push(word(&placeholder, Some('"'), &place));
        at = value_at + length;
        if !alias_follows(&tokens, at)
            && let Some(last) = name.last()
        {
            output.push(word("AS", None, &place));
            output.push(TokenWithSpan { token: Token::Word(last.clone()), span: place.span });
        }
        let table = name.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".");
        versions.push(VersionedTable { placeholder, table, at: choice });
    }
    Ok((output, versions))
}

fn clause_at(tokens: &[TokenWithSpan], at: usize) -> Result<Option<Clause>> {
    let with_for = keyword(tokens, at) == Some(Keyword::FOR);
    let start = at + usize::from(with_for);
    let spelled = bare_word(tokens, start).map(str::to_ascii_uppercase).unwrap_or_default();
    let (clock, name) = match spelled.as_str() {
        "VERSION" => (Clock::Version, "VERSION AS OF"),
        "SYSTEM_VERSION" => (Clock::Version, "SYSTEM_VERSION AS OF"),
        "TIMESTAMP" => (Clock::Time, "TIMESTAMP AS OF"),
        "SYSTEM_TIME" => (Clock::Time, "SYSTEM_TIME AS OF"),
        _ => return Ok(None),
    };
    let as_of = keyword(tokens, start + 1) == Some(Keyword::AS)
        && bare_word(tokens, start + 2).is_some_and(|of| of.eq_ignore_ascii_case("of"));
    if as_of {
        return Ok(Some(Clause { clock, certain: with_for, words: start + 3 - at, name }));
    }
    let range = matches!(keyword(tokens, start + 1), Some(Keyword::BETWEEN | Keyword::FROM | Keyword::ALL))
        || bare_word(tokens, start + 1).is_some_and(|next| next.eq_ignore_ascii_case("contained"));
    if with_for && range {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("FOR {spelled} is supported with AS OF only, not with a range"),
        ));
    }
    Ok(None)
}

/// The value after `AS OF` and how many tokens it takes; none when there is no literal.
fn value(tokens: &[TokenWithSpan], at: usize, clock: Clock, name: &str) -> Result<Option<(VersionChoice, usize)>> {
    let token = tokens.get(at).map(|token| &token.token);
    match (clock, token) {
        (Clock::Version, Some(Token::Number(digits, _))) => {
            let version = digits.parse::<i64>().map_err(|_| {
                Error::new(ErrorKind::Parse, format!("{name} {digits}: a version is a whole number below 2^63"))
            })?;
            Ok(Some((VersionChoice::Version(version), 1)))
        }
        (Clock::Version, Some(Token::SingleQuotedString(text))) => {
            let choice = match text.parse::<i64>() {
                Ok(version) => VersionChoice::Version(version),
                Err(_) if text.is_empty() => {
                    return Err(Error::new(ErrorKind::Parse, format!("{name} '': name a version, a branch or a tag")));
                }
                Err(_) => VersionChoice::Reference(text.clone()),
            };
            Ok(Some((choice, 1)))
        }
        (Clock::Time, Some(Token::SingleQuotedString(text))) => Ok(Some((time(text, name)?, 1))),
        (Clock::Time, Some(Token::Word(_))) => {
            let typed = matches!(keyword(tokens, at), Some(Keyword::TIMESTAMP | Keyword::DATE | Keyword::TIMESTAMPTZ));
            match tokens.get(at + 1).map(|token| &token.token) {
                Some(Token::SingleQuotedString(text)) if typed => Ok(Some((time(text, name)?, 2))),
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

fn time(text: &str, name: &str) -> Result<VersionChoice> {
    let moment = string_to_datetime(&Utc, text.trim()).map_err(|_| {
        Error::new(ErrorKind::Parse, format!("{name} '{text}': not a point in time"))
            .with_hint("write for example '2026-01-31 12:00:00' (UTC) or '2026-01-31T12:00:00+02:00'")
    })?;
    Ok(VersionChoice::TimestampMs(moment.timestamp_millis()))
}

fn bad_value(clause: &Clause, found: Option<&TokenWithSpan>) -> Error {
    let found = found.map_or_else(
        || "the end".to_owned(),
        |token| format!("{} at line {}, column {}", token.token, token.span.start.line, token.span.start.column),
    );
    let wanted = match clause.clock {
        Clock::Version => "a whole number or a quoted branch or tag",
        Clock::Time => "a quoted point in time such as '2026-01-31 12:00:00'",
    };
    Error::new(ErrorKind::Parse, format!("FOR {} takes {wanted}, found {found}", clause.name))
        .with_hint("expressions and parameters are not supported there")
}

/// Takes the table's name (parts joined by dots) off the end of what was written so far.
fn take_table_name(output: &mut Vec<TokenWithSpan>, place: &TokenWithSpan, clause: &str) -> Result<Vec<Word>> {
    let mut parts = Vec::new();
    while let Some(Token::Word(part)) = output.last().map(|token| &token.token) {
        if part.quote_style.is_none() && parts.is_empty() && RESERVED_FOR_TABLE_ALIAS.contains(&part.keyword) {
            break;
        }
        parts.insert(0, part.clone());
        output.pop();
        if output.last().map(|token| &token.token) != Some(&Token::Period) {
            break;
        }
        output.pop();
    }
    let at = place.span.start;
    let misplaced = |what: &str| {
        Err(Error::new(ErrorKind::Parse, format!("{clause} at line {}, column {} {what}", at.line, at.column))
            .with_hint("write it directly after the table's name, before its alias: FROM t FOR VERSION AS OF 3 AS a"))
    };
    if parts.is_empty() {
        return misplaced("does not follow a table's name");
    }
    match output.last().map(|token| &token.token) {
        Some(Token::Comma | Token::LParen) => Ok(parts),
        Some(Token::Word(before)) if before.quote_style.is_none() => match before.keyword {
            Keyword::FROM | Keyword::JOIN | Keyword::TABLE | Keyword::ONLY | Keyword::APPLY => Ok(parts),
            _ => misplaced("follows an alias"),
        },
        _ => misplaced("does not follow a table's name"),
    }
}

/// Whether the parser would read the token at `at` as the table's alias.
fn alias_follows(tokens: &[TokenWithSpan], at: usize) -> bool {
    match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_some() => true,
        Some(Token::Word(word)) => word.keyword == Keyword::AS || !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword),
        _ => false,
    }
}

fn keyword(tokens: &[TokenWithSpan], at: usize) -> Option<Keyword> {
    match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

fn bare_word(tokens: &[TokenWithSpan], at: usize) -> Option<&str> {
    match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

fn word(text: &str, quote: Option<char>, place: &TokenWithSpan) -> TokenWithSpan {
    TokenWithSpan { token: Token::make_word(text, quote), span: place.span }
}

//! What names mean at one place of a statement: relations with their columns, and aliases of the
//! select list. Exactly the same name wins; else the one name that differs in case only.

use arrow::datatypes::{DataType, Schema};
use datafusion::sql::sqlparser::ast::Ident;
use lakeserve_common::error::{Error, ErrorKind, Result};

/// A column: its name and, where it is known, its type.
#[derive(Debug, Clone)]
pub(super) struct ColumnName {
    pub name: String,
    pub data_type: Option<DataType>,
}

/// The columns of a relation or a query.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    pub columns: Vec<ColumnName>,
    /// Whether there are no others.
    pub complete: bool,
}

impl Columns {
    pub(super) fn of_schema(schema: &Schema) -> Self {
        let columns = schema.fields().iter();
        let columns =
            columns.map(|field| ColumnName { name: field.name().clone(), data_type: Some(field.data_type().clone()) });
        Self { columns: columns.collect(), complete: true }
    }

    /// Renames the first columns, as the list after a table's alias does.
    pub(super) fn rename<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for (at, name) in names.enumerate() {
            match self.columns.get_mut(at) {
                Some(column) => name.clone_into(&mut column.name),
                None => self.columns.push(ColumnName { name: name.to_owned(), data_type: None }),
            }
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    fn data_type(&self, name: &str) -> Option<&DataType> {
        self.columns.iter().find(|column| column.name == name)?.data_type.as_ref()
    }
}

/// A table, view, CTE or subquery in FROM.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    /// The parts of its name; the alias alone where it has one; nothing for a nameless subquery.
    pub path: Vec<String>,
    pub columns: Columns,
    /// Whether its unknown columns are named in lower case, as those of the engine's own tables are.
    pub lower: bool,
}

/// The names visible in one SELECT.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub relations: Vec<Relation>,
    /// Names given in the select list, where they are visible.
    pub aliases: Vec<String>,
    /// Names of the windows.
    pub windows: Vec<String>,
}

/// What was found for a name.
#[derive(Debug)]
pub(super) enum Found {
    /// The name stands exactly so.
    Exact,
    /// It is spelled otherwise.
    Spelled(String),
    /// Nothing of this name is known here.
    Nothing,
}

/// The name among `candidates` that `name` means.
///
/// # Errors
/// When several differ from it and from each other in case only; `what` says what they name.
pub(super) fn find<'c>(name: &str, candidates: impl Iterator<Item = &'c str> + Clone, what: &str) -> Result<Found> {
    if candidates.clone().any(|candidate| candidate == name) {
        return Ok(Found::Exact);
    }
    let lower = name.to_lowercase();
    let mut alike: Vec<&str> = candidates.filter(|candidate| same_letters(candidate, name, &lower)).collect();
    alike.sort_unstable();
    alike.dedup();
    match alike.as_slice() {
        [] => Ok(Found::Nothing),
        [one] => Ok(Found::Spelled((*one).to_owned())),
        several => {
            let kind = if what == "table" { ErrorKind::NoSuchTable } else { ErrorKind::NoSuchColumn };
            Err(Error::new(kind, format!("the {what} name {name} is ambiguous: it may mean {}", several.join(" or ")))
                .with_hint("spell it exactly"))
        }
    }
}

fn same_letters(candidate: &str, name: &str, lower: &str) -> bool {
    if candidate.is_ascii() && name.is_ascii() {
        candidate.eq_ignore_ascii_case(name)
    } else {
        candidate.to_lowercase() == lower
    }
}

/// [`find`], with the spelling put into the identifier. False when there is nothing.
pub(super) fn spell<'c>(
    ident: &mut Ident,
    candidates: impl Iterator<Item = &'c str> + Clone,
    what: &str,
) -> Result<bool> {
    Ok(match find(&ident.value, candidates, what)? {
        Found::Exact => true,
        Found::Spelled(name) => {
            ident.value = name;
            true
        }
        Found::Nothing => false,
    })
}

impl Scope {
    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        let columns = self.relations.iter().flat_map(|relation| relation.columns.columns.iter());
        self.aliases.iter().map(String::as_str).chain(columns.map(|column| column.name.as_str()))
    }

    /// Resolves an unqualified name here. False when nothing of this name is known.
    pub(super) fn column(&self, ident: &mut Ident) -> Result<bool> {
        spell(ident, self.names(), "column")
    }

    /// Whether unknown names may be columns spelled in lower case.
    pub(super) fn lower(&self) -> bool {
        self.relations.iter().any(|relation| relation.lower)
    }

    /// The type of an exactly spelled column.
    pub(super) fn data_type(&self, name: &str) -> Option<&DataType> {
        self.relations.iter().find_map(|relation| relation.columns.data_type(name))
    }

    /// Resolves `relation.column.field…`, or `column.field…`. False when it means nothing here.
    pub(super) fn compound(&self, parts: &mut [Ident]) -> Result<bool> {
        for length in (1..parts.len()).rev() {
            let Some((qualifier, rest)) = parts.split_at_mut_checked(length) else { continue };
            let Some(relation) = self.relation(qualifier)? else { continue };
            let Some((column, fields)) = rest.split_first_mut() else { continue };
            let known = spell(column, relation.columns.columns.iter().map(|column| column.name.as_str()), "column")?;
            if known {
                nested(fields, relation.columns.data_type(&column.value))?;
                return Ok(true);
            }
            if relation.lower && column.quote_style.is_none() {
                column.value = column.value.to_lowercase();
                return Ok(true);
            }
            if !relation.columns.complete || length > 1 {
                return Ok(true);
            }
        }
        let Some((column, fields)) = parts.split_first_mut() else { return Ok(false) };
        if self.column(column)? {
            nested(fields, self.data_type(&column.value))?;
            return Ok(true);
        }
        Ok(false)
    }

    /// The relation that the parts name, their spelling corrected.
    pub(super) fn relation(&self, parts: &mut [Ident]) -> Result<Option<&Relation>> {
        let ends = |relation: &Relation, same: &dyn Fn(&str, &str) -> bool| {
            relation.path.len() >= parts.len()
                && relation.path.iter().rev().zip(parts.iter().rev()).all(|(name, part)| same(name, &part.value))
        };
        if let Some(relation) = self.relations.iter().find(|relation| ends(relation, &|name, part| name == part)) {
            return Ok(Some(relation));
        }
        let alike: Vec<&Relation> = self
            .relations
            .iter()
            .filter(|relation| ends(relation, &|name, part| same_letters(name, part, &part.to_lowercase())))
            .collect();
        match alike.as_slice() {
            [] => Ok(None),
            [one] => {
                for (part, name) in parts.iter_mut().rev().zip(one.path.iter().rev()) {
                    part.value.clone_from(name);
                }
                Ok(Some(one))
            }
            several => {
                let name = parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".");
                let names: Vec<String> = several.iter().map(|relation| relation.path.join(".")).collect();
                Err(Error::new(
                    ErrorKind::NoSuchTable,
                    format!("the table name {name} is ambiguous: it may mean {}", names.join(" or ")),
                )
                .with_hint("spell it exactly"))
            }
        }
    }
}

/// Spells field names of structs.
fn nested(parts: &mut [Ident], data_type: Option<&DataType>) -> Result<()> {
    let mut data_type = data_type;
    for part in parts {
        let Some(DataType::Struct(fields)) = data_type else { return Ok(()) };
        spell(part, fields.iter().map(|field| field.name().as_str()), "field")?;
        data_type = fields.iter().find(|field| *field.name() == part.value).map(|field| field.data_type());
    }
    Ok(())
}

//! The parser of expressions, by recursive descent.

use baton_engine::names;

use super::{MAX_DEPTH, Node, ParseError, Test, WORDS};

/// Number of characters that an error shows before and after its position.
const EXCERPT: usize = 40;

const OPERATORS: &str = "an operator (=, !=, in, notin, exists)";
const KEY: &str = "a label key";
const VALUE: &str = "a label value";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A text without quotes.
    Word(&'a str),
    /// A text in quotes.
    Quoted(&'a str),
    /// A quote that is not closed.
    Unclosed,
    /// One of `(`, `)`, `,`, `=`, `==`, `!=`, or a lone `!`.
    Sign(&'a str),
    End,
}

struct Parser<'a> {
    text: &'a str,
    /// Current token, its start, and the start of the rest of the text.
    token: Token<'a>,
    at: usize,
    next: usize,
    depth: usize,
}

pub(super) fn parse(text: &str) -> Result<Node, ParseError> {
    let mut parser = Parser {
        text,
        token: Token::End,
        at: 0,
        next: 0,
        depth: 0,
    };
    parser.advance();
    let node = parser.any()?;
    match parser.token {
        Token::End => Ok(node),
        _ => Err(parser.error("\"and\", \"or\" or the end")),
    }
}

impl Parser<'_> {
    fn any(&mut self) -> Result<Node, ParseError> {
        let mut parts = Vec::new();
        loop {
            match self.all()? {
                Node::Any(inner) => parts.extend(inner),
                part => parts.push(part),
            }
            if !self.takes(Token::Word("or")) {
                return Ok(one_or(parts, Node::Any));
            }
        }
    }

    fn all(&mut self) -> Result<Node, ParseError> {
        let mut parts = Vec::new();
        loop {
            match self.part()? {
                Node::All(inner) => parts.extend(inner),
                part => parts.push(part),
            }
            if !self.takes(Token::Word("and")) && !self.takes(Token::Sign(",")) {
                return Ok(one_or(parts, Node::All));
            }
        }
    }

    fn part(&mut self) -> Result<Node, ParseError> {
        if self.token != Token::Sign("(") {
            return self.label();
        }
        if self.depth == MAX_DEPTH {
            return Err(self.error(&format!("at most {MAX_DEPTH} nested parentheses")));
        }
        self.depth += 1;
        self.advance();
        let inner = self.any()?;
        self.close("\"and\", \"or\" or \")\"")?;
        self.depth -= 1;
        Ok(inner)
    }

    fn label(&mut self) -> Result<Node, ParseError> {
        let key = self.literal(KEY, key_problem)?;
        let test = match self.token {
            Token::Sign("=" | "==") => {
                self.advance();
                Test::Equal(self.value()?)
            }
            Token::Sign("!=") => {
                self.advance();
                Test::NotEqual(self.value()?)
            }
            Token::Word("in") => Test::In(self.values()?),
            Token::Word("notin") => Test::NotIn(self.values()?),
            Token::Word("exists") => {
                self.advance();
                Test::Exists
            }
            _ => return Err(self.error(OPERATORS)),
        };
        Ok(Node::Label { key, test })
    }

    fn value(&mut self) -> Result<String, ParseError> {
        self.literal(VALUE, value_problem)
    }

    /// Parses the list after `in` or `notin`.
    fn values(&mut self) -> Result<Vec<String>, ParseError> {
        self.advance();
        if !self.takes(Token::Sign("(")) {
            return Err(self.error("\"(\" and the values"));
        }
        let mut values = vec![self.value()?];
        while self.takes(Token::Sign(",")) {
            values.push(self.value()?);
        }
        self.close("\",\" or \")\"")?;
        Ok(values)
    }

    fn close(&mut self, expected: &str) -> Result<(), ParseError> {
        if self.takes(Token::Sign(")")) {
            return Ok(());
        }
        Err(self.error(expected))
    }

    fn literal(
        &mut self,
        expected: &str,
        problem: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<String, ParseError> {
        let text = match self.token {
            Token::Word(word) if WORDS.contains(&word) => {
                let hint = match word {
                    "exists" if expected == KEY => " (it is written \"key exists\")",
                    _ => " (to use a word of the language as text, put it in quotes)",
                };
                return Err(self.error(&format!("{expected}{hint}")));
            }
            Token::Word(text) | Token::Quoted(text) => text,
            Token::Unclosed => return Err(self.error(&format!("{expected} in closed quotes"))),
            Token::Sign(_) | Token::End => return Err(self.error(expected)),
        };
        if let Some(problem) = problem(text) {
            return Err(self.error(&format!("{expected} ({problem})")));
        }
        self.advance();
        Ok(text.to_owned())
    }

    fn takes(&mut self, token: Token<'_>) -> bool {
        let is_it = self.token == token;
        if is_it {
            self.advance();
        }
        is_it
    }

    /// Reads the next token.
    fn advance(&mut self) {
        let rest = self.text[self.next..].trim_start();
        self.at = self.text.len() - rest.len();
        let (token, length) = token(rest);
        self.token = token;
        self.next = self.at + length;
    }

    fn error(&self, expected: &str) -> ParseError {
        let found = match self.token {
            Token::End => "the end".to_owned(),
            _ => names::quoted(&self.text[self.at..self.next]),
        };
        let before = self.text[..self.at].trim_end();
        let start = before.char_indices().rev().nth(EXCERPT - 1);
        let start = start.map_or(0, |(start, _)| start);
        let dots = if start > 0 { "…" } else { "" };
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = before[start..].chars().map(printable).collect();
        ParseError {
            position: self.at,
            expected: expected.to_owned(),
            found,
            before: if shown.is_empty() {
                String::new()
            } else {
                format!(", after: {dots}{shown}")
            },
        }
    }
}

/// The token at the start of a text, and its length in bytes.
fn token(text: &str) -> (Token<'_>, usize) {
    let Some(first) = text.chars().next() else {
        return (Token::End, 0);
    };
    if let '\'' | '"' = first {
        return match text[1..].find(first) {
            Some(end) => (Token::Quoted(&text[1..=end]), end + 2),
            None => (Token::Unclosed, text.len()),
        };
    }
    let signs = ["==", "!=", "=", "!", "(", ")", ","].into_iter();
    if let Some(sign) = signs.into_iter().find(|sign| text.starts_with(sign)) {
        return (Token::Sign(sign), sign.len());
    }
    let is_end = |c: char| c.is_whitespace() || "()=!,'\"".contains(c);
    let end = text.find(is_end).unwrap_or(text.len());
    (Token::Word(&text[..end]), end)
}

/// A list with a single part becomes that part.
fn one_or(mut parts: Vec<Node>, list: impl Fn(Vec<Node>) -> Node) -> Node {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        popped => {
            parts.extend(popped);
            list(parts)
        }
    }
}

/// The reason that a text is not a key of a label. A key is a name of at most 63 characters,
/// optionally after a DNS name and a slash.
fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|prefix| !names::is_subdomain(prefix)) {
        return Some("the part before the slash must be a DNS name in lower case");
    }
    (name.is_empty() || !names::is_label_value(name)).then_some(
        "letters, digits, \"-\", \"_\" and \".\", at most 63, a letter or digit at both ends",
    )
}

/// The reason that a text is not a value of a label.
fn value_problem(value: &str) -> Option<&'static str> {
    (!names::is_label_value(value)).then_some(
        "letters, digits, \"-\", \"_\" and \".\", at most 63, a letter or digit at both ends",
    )
}

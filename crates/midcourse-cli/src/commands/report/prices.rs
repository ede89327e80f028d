//! What tokens cost: a dated table of prices, which the user's configuration can extend and
//! override. A cost that the host reported takes precedence over one that is computed here, and
//! tokens of a model without a price make the cost unknown.

use std::collections::BTreeMap;

use midcourse::{MicroUsd, Usage};
use serde::{Deserialize, Serialize, Serializer};

use crate::config::Price;

/// The prices that midcourse ships with.
const SHIPPED: &str = include_str!("prices.toml");

/// Numbers of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    /// Tokens sent to the model, including those that were read from its prompt cache or written
    /// to it.
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

impl Tokens {
    pub(crate) fn of(usage: &Usage) -> Self {
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        let cache_read = count(usage.cache_read_input_tokens);
        let cache_write = count(usage.cache_creation_input_tokens);
        let uncached = count(usage.input_tokens);
        Self {
            input: uncached.saturating_add(cache_read).saturating_add(cache_write),
            output: count(usage.output_tokens),
            cache_read,
            cache_write,
        }
    }

    pub(crate) const fn is_zero(&self) -> bool {
        self.input == 0 && self.output == 0
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }

    /// The tokens of `self` that `earlier` does not include.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            input: self.input.saturating_sub(earlier.input),
            output: self.output.saturating_sub(earlier.output),
            cache_read: self.cache_read.saturating_sub(earlier.cache_read),
            cache_write: self.cache_write.saturating_sub(earlier.cache_write),
        }
    }
}

/// As the other commands write tokens: `input` is without those of the prompt cache.
impl Serialize for Tokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { input, output, cache_read, cache_write } = *self;
        let input = input.saturating_sub(cache_read).saturating_sub(cache_write);
        let fields = [
            ("input", input),
            ("output", output),
            ("cache_read", cache_read),
            ("cache_write", cache_write),
        ];
        serializer.collect_map(fields)
    }
}

/// Tokens that one model used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ModelTokens {
    /// `None` if nobody reported the model.
    pub(crate) model: Option<String>,
    pub(crate) tokens: Tokens,
}

/// What a run cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// In US dollars; `None` if it is unknown.
    pub(crate) usd: Option<f64>,
    pub(crate) basis: Basis,
    /// The oldest date of the prices with which the cost was estimated, or `configuration`.
    pub(crate) prices_of: Option<String>,
    /// Models without a price, whose tokens make the cost unknown.
    pub(crate) unknown_models: Vec<String>,
}

/// Where a cost comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Basis {
    /// The host reported it.
    Reported,
    /// It was computed from tokens and prices.
    Estimated,
    /// The hosts reported one part of it, and the other part was computed.
    PartlyEstimated,
    #[default]
    Unknown,
}

impl Cost {
    pub(crate) fn reported(total: MicroUsd) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "amounts are far below 2^53 micro-dollars")]
        let usd = total.get() as f64 / 1e6;
        Self { usd: Some(usd), basis: Basis::Reported, ..Self::default() }
    }

    /// The cost as a text, with its basis.
    pub(crate) fn text(&self) -> String {
        let dollars = self.usd.map(dollars);
        match (dollars, self.basis) {
            (Some(usd), Basis::Reported) => format!("{usd}, as the agent reported it"),
            (Some(usd), basis) => {
                let partly = if basis == Basis::PartlyEstimated { "partly " } else { "" };
                format!("{usd}, {partly}{}", self.estimated_with().unwrap_or_default())
            }
            (None, _) => match self.unknown_models.as_slice() {
                [] => "unknown".to_owned(),
                [model] => format!("unknown; there is no price for {model}"),
                models => format!("unknown; there are no prices for {}", models.join(", ")),
            },
        }
    }
}

impl Cost {
    /// The cost without its basis, for a table: an estimate begins with `~`.
    pub(crate) fn short(&self) -> String {
        match (self.usd.map(dollars), self.basis) {
            (Some(usd), Basis::Reported) => usd,
            (Some(usd), _) => format!("~{usd}"),
            (None, _) => "unknown".to_owned(),
        }
    }

    /// With which prices the cost was estimated; `None` if it was not.
    pub(crate) fn estimated_with(&self) -> Option<String> {
        Some(match self.prices_of.as_deref()? {
            "configuration" => "estimated with your prices".to_owned(),
            date => format!("estimated with list prices as known on {date}"),
        })
    }
}

/// Formats dollars with cents; amounts below a cent with more digits.
pub(crate) fn dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 0.01 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// The price of a model, and when it was looked up.
struct Entry {
    model: String,
    price: Price,
    date: String,
}

#[derive(Deserialize)]
struct TableWire {
    price: Vec<EntryWire>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryWire {
    model: String,
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
    date: String,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader of the table"))]
    source: String,
}

/// The prices of all known models.
pub(crate) struct Prices {
    shipped: Vec<Entry>,
    /// The user's prices, by model.
    own: BTreeMap<String, Price>,
}

impl Prices {
    pub(crate) fn new(own: BTreeMap<String, Price>) -> Self {
        // A test parses the table, so it is never empty.
        let table = toml::from_str(SHIPPED).map_or_else(|_| Vec::new(), |it: TableWire| it.price);
        let entry = |wire: EntryWire| {
            let EntryWire { model, input, output, cache_read, cache_write, date, .. } = wire;
            Entry { model, price: Price { input, output, cache_read, cache_write }, date }
        };
        Self { shipped: table.into_iter().map(entry).collect(), own }
    }

    /// The price of a model and its date, if it is known. The user's prices come first.
    fn find(&self, model: &str) -> Option<(Price, &str)> {
        let own = self.own.iter().filter(|(name, _)| is_version_of(model, name));
        if let Some((_, price)) = own.max_by_key(|(name, _)| name.len()) {
            return Some((*price, "configuration"));
        }
        let entries = self.shipped.iter().filter(|entry| is_version_of(model, &entry.model));
        let entry = entries.max_by_key(|entry| entry.model.len())?;
        Some((entry.price, &entry.date))
    }

    /// The cost of these tokens.
    pub(crate) fn estimate<'a>(
        &self,
        models: impl IntoIterator<Item = (Option<&'a str>, Tokens)>,
    ) -> Cost {
        let mut cost = Cost::default();
        let (mut sum, mut has_tokens) = (0.0, false);
        for (model, tokens) in models {
            if tokens.is_zero() {
                continue;
            }
            has_tokens = true;
            match model.and_then(|model| self.find(model)) {
                Some((price, date)) => {
                    sum += price.of(
                        tokens.input,
                        tokens.output,
                        tokens.cache_read,
                        tokens.cache_write,
                    );
                    let oldest = cost.prices_of.as_deref().is_none_or(|known| date < known);
                    if oldest {
                        cost.prices_of = Some(date.to_owned());
                    }
                }
                None => {
                    let name = model.map_or("an unknown model", |model| model);
                    let name = crate::display::one_line(name, 60);
                    if !cost.unknown_models.contains(&name) {
                        cost.unknown_models.push(name);
                    }
                }
            }
        }
        if has_tokens && cost.unknown_models.is_empty() {
            cost.usd = Some((sum * 1e6).round() / 1e6);
            cost.basis = Basis::Estimated;
        } else {
            cost.prices_of = None;
        }
        cost
    }
}

/// Whether `model` is the model `name`, possibly with the date of a version behind it. A longer name
/// such as `gpt-5-mini` is another model than `gpt-5`.
fn is_version_of(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else { return false };
    let digits = rest.chars().filter(char::is_ascii_digit).count();
    let is_date = rest.starts_with(['-', '@'])
        && rest.chars().all(|c| c.is_ascii_digit() || c == '-' || c == '@')
        && digits == 8;
    rest.is_empty() || rest == "-latest" || is_date
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Basis, EntryWire, Price, Prices, TableWire, Tokens, is_version_of};

    #[test]
    fn the_shipped_table_is_dated_and_names_its_sources() {
        let table: TableWire = toml::from_str(super::SHIPPED).unwrap();
        let mut names: Vec<&str> = table.price.iter().map(|entry| entry.model.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "a model has two prices");
        for entry in &table.price {
            assert!(entry.date.parse::<jiff::civil::Date>().is_ok(), "{}", entry.model);
            assert!(entry.source.starts_with("https://"));
            let EntryWire { input, output, cache_read, cache_write, .. } = *entry;
            assert!(cache_read < input && input <= cache_write && cache_write < output);
        }
    }

    #[test]
    fn a_model_is_found_by_its_name_with_or_without_a_date() {
        for version in ["gpt-5", "gpt-5-2025-08-07", "gpt-5-latest", "gpt-5@20250807"] {
            assert!(is_version_of(version, "gpt-5"), "{version}");
        }
        for other in ["gpt-5-mini", "gpt-5.1", "gpt-5-5", "gpt-51", "gpt", "gpt-5-2025"] {
            assert!(!is_version_of(other, "gpt-5"), "{other}");
        }
    }

    #[test]
    fn a_cost_is_estimated_with_the_price_of_each_kind_of_token() {
        let prices = Prices::new(BTreeMap::new());
        let tokens = Tokens {
            input: 3_000_000,
            output: 1_000_000,
            cache_read: 1_000_000,
            cache_write: 1_000_000,
        };
        let cost = prices.estimate([(Some("claude-sonnet-4-5-20250929"), tokens)]);
        assert_eq!((cost.usd, cost.basis), (Some(3.0 + 0.3 + 3.75 + 15.0), Basis::Estimated));
        assert!(
            cost.text().starts_with("$22.05, estimated with list prices as known on 20"),
            "{}",
            cost.text()
        );
    }

    #[test]
    fn an_unknown_model_makes_the_cost_unknown_and_never_zero() {
        let prices = Prices::new(BTreeMap::new());
        let tokens = Tokens { input: 10, output: 5, ..Tokens::default() };
        let models = [(Some("gpt-5"), tokens), (Some("my-model"), tokens), (None, tokens)];
        let cost = prices.estimate(models);
        assert_eq!(cost.usd, None);
        assert_eq!(cost.text(), "unknown; there are no prices for my-model, an unknown model");
        assert_eq!(prices.estimate([(Some("gpt-5"), Tokens::default())]).text(), "unknown");
    }

    #[test]
    fn a_price_of_the_user_replaces_a_shipped_one() {
        let price = Price { input: 1.0, output: 2.0, cache_read: 0.0, cache_write: 1.0 };
        let own = BTreeMap::from([("gpt-5".to_owned(), price), ("my-model".to_owned(), price)]);
        let prices = Prices::new(own);
        let tokens = Tokens { input: 1_000_000, output: 1_000_000, ..Tokens::default() };
        let cost = prices.estimate([(Some("gpt-5"), tokens), (Some("my-model"), tokens)]);
        assert_eq!(cost.text(), "$6.00, estimated with your prices");
    }
}

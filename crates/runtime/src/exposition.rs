//! Writes metrics: series that are computed for a scrape, and the older text format of Prometheus
//! for clients that do not accept `OpenMetrics`.

use std::fmt;

use baton_apis::metrics::MetricFamily;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};

/// Writes the series of a family that a collector has computed for a scrape.
///
/// # Errors
/// If a value cannot be written in the format.
pub fn encode_family(
    encoder: &mut DescriptorEncoder,
    family: &MetricFamily,
    series: &impl EncodeMetric,
) -> fmt::Result {
    encode_named(encoder, family.name, family, series)
}

/// Writes the series of a family whose name has a variable part.
///
/// # Errors
/// If a value cannot be written in the format.
pub fn encode_named(
    encoder: &mut DescriptorEncoder,
    name: &str,
    family: &MetricFamily,
    series: &impl EncodeMetric,
) -> fmt::Result {
    // The registry adds this period to the families that are registered with it.
    let help = format!("{}.", family.help);
    let metric = encoder.encode_descriptor(name, &help, None, series.metric_type())?;
    series.encode(metric)
}

/// Translates `OpenMetrics` text to the text format 0.0.4.
///
/// In that format, a family has the same name as its series: counters have the suffix `_total` in
/// `HELP` and `TYPE` as well. A family of the type `info` is a gauge, `unknown` is `untyped`, and
/// there is no `EOF`. `open_metrics` has no timestamps, exemplars or units, and `HELP` precedes
/// `TYPE`, as `prometheus-client` writes them.
pub(super) fn plain_text(open_metrics: &str) -> String {
    let mut plain = String::with_capacity(open_metrics.len() + 1024);
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, type_)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            let (suffix, type_) = match type_ {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some((_, text)) = help.take().filter(|(of, _)| *of == name) {
                plain.extend(["# HELP ", name, suffix, " ", text, "\n"]);
            }
            plain.extend(["# TYPE ", name, suffix, " ", type_, "\n"]);
        } else if line != "# EOF" {
            plain.extend([line, "\n"]);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_the_names_of_their_series() {
        let open = "\
# HELP baton_build Version of the process.
# TYPE baton_build info
baton_build_info{version=\"1\"} 1
# HELP baton_events Kubernetes Events.
# TYPE baton_events counter
baton_events_total{outcome=\"# TYPE x counter\"} 1
# HELP baton_queue_depth Objects.
# TYPE baton_queue_depth gauge
baton_queue_depth 5
# TYPE odd unknown
odd 1
# EOF
";
        let plain = "\
# HELP baton_build_info Version of the process.
# TYPE baton_build_info gauge
baton_build_info{version=\"1\"} 1
# HELP baton_events_total Kubernetes Events.
# TYPE baton_events_total counter
baton_events_total{outcome=\"# TYPE x counter\"} 1
# HELP baton_queue_depth Objects.
# TYPE baton_queue_depth gauge
baton_queue_depth 5
# TYPE odd untyped
odd 1
";
        assert_eq!(plain_text(open), plain);
    }
}

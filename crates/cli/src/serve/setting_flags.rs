//! The flags of the node's settings, generated from their declarations.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use stylobate_server::config::Setting;

/// The settings given on the command line, unparsed.
#[derive(Debug, Default)]
pub(super) struct SettingFlags(pub(super) Vec<(Setting, String)>);

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        command.args(settings_with_flags().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = settings_with_flags().filter_map(|setting| Some((setting, text(setting, matches)?)));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn settings_with_flags() -> impl Iterator<Item = Setting> {
    Setting::ALL.into_iter().filter(|setting| setting.has_flag())
}

fn flag(setting: Setting) -> Arg {
    let flag = setting.flag();
    let arg = Arg::new(setting.key()).long(flag.trim_start_matches('-').to_owned());
    let Some(placeholder) = setting.placeholder() else {
        return arg.help(setting.help()).action(ArgAction::SetTrue);
    };

    let help = match setting.default_text().as_str() {
        "none" => setting.help().to_owned(),
        default => format!("{} [default: {default}]", setting.help()),
    };
    let arg = arg.help(help).value_name(placeholder);

    match setting {
        Setting::Domains => arg.action(ArgAction::Append),
        Setting::DiskCapacity => arg.hide(true),
        Setting::TlsCertificate => arg.requires(Setting::TlsKey.key()),
        Setting::TlsKey => arg.requires(Setting::TlsCertificate.key()),
        _ => arg,
    }
}

/// Returns the text of a setting; the elements of a list are joined by commas.
fn text(setting: Setting, matches: &ArgMatches) -> Option<String> {
    if setting.placeholder().is_none() {
        return matches.get_flag(setting.key()).then(|| "true".to_owned());
    }
    let texts: Vec<_> = matches.get_many::<String>(setting.key())?.map(String::as_str).collect();
    Some(texts.join(","))
}

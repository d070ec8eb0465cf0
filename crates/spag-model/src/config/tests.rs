use serde_json::json;

use spag_ops::glu::Activation;

use super::*;

/// A small configuration of a family, with changes.
fn config(model_type: &str, changes: Value) -> Result<ModelConfig> {
    let mut keys = json!({"model_type": model_type, "hidden_size": 8, "intermediate_size": 12, "vocab_size": 10,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4});
    let map = keys.as_object_mut().unwrap();
    map.extend(changes.as_object().unwrap().clone());
    ModelConfig::from_keys(map.clone())
}

const FAMILIES: [&str; 11] =
    ["llama", "mistral", "qwen2", "qwen3", "olmo2", "olmo3", "smollm3", "granite", "phi3", "gemma3_text", "baichuan"];

#[test]
fn families_differ_in_their_architecture() {
    let of = |family| config(family, json!({})).unwrap().architecture;
    let llama = of("llama");
    assert_eq!((llama.heads.dim, llama.biases, llama.windows.clone()), (2, Biases::default(), vec![None; 3]));
    assert_eq!(
        of("mistral"),
        Architecture { windows: vec![Some(4096); 3], max_position_embeddings: 1 << 17, ..llama.clone() }
    );
    assert_eq!(
        of("qwen2"),
        Architecture {
            biases: Biases { qkv: true, ..Biases::default() },
            max_position_embeddings: 1 << 15,
            ..llama.clone()
        }
    );
    let qwen3 = of("qwen3");
    assert_eq!((qwen3.heads.dim, qwen3.head_norm), (128, HeadNorm::QueriesAndKeys));
    assert_eq!(
        of("olmo2"),
        Architecture { norms: Norms::After, head_norm: HeadNorm::WholeWidth, rms_norm_eps: 1e-5, ..llama.clone() }
    );
    let olmo3 = of("olmo3");
    assert_eq!((olmo3.position.clone(), &olmo3.windows), (Position::Rope(Rope::new(5e5)), &vec![Some(4096); 3]));
    assert_eq!((olmo3.window_rope, olmo3.rms_norm_eps), (Some(Rope::new(5e5)), 1e-5));
    let smollm3 = of("smollm3");
    assert_eq!((smollm3.without_rope, smollm3.head), (Vec::new(), OutputHead::Tied));
    assert_eq!((smollm3.position, smollm3.windows), (Position::Rope(Rope::new(2e6)), vec![None; 3]));
    assert_eq!(of("granite"), Architecture { attention_scale: Some(1.0), ..llama.clone() });
    assert_eq!(
        of("phi3"),
        Architecture {
            projections: Projections::Fused,
            max_position_embeddings: 4096,
            rms_norm_eps: 1e-5,
            ..llama.clone()
        }
    );
    let gemma = of("gemma3_text");
    assert_eq!((gemma.heads.dim, gemma.attention_scale, gemma.head), (256, None, OutputHead::Tied));
    assert_eq!((gemma.position, gemma.window_rope), (Position::Rope(Rope::new(1e6)), Some(Rope::new(1e4))));
    assert_eq!((gemma.activation, gemma.norms), (Activation::GeGlu, Norms::BeforeAndAfter));
    let baichuan = of("baichuan");
    assert_eq!((baichuan.position, baichuan.projections), (Position::Alibi, Projections::Packed));
    let rotary = config("baichuan", json!({"max_position_embeddings": 64})).unwrap().architecture;
    assert_eq!((rotary.position, rotary.head), (Position::Rope(Rope::new(10_000.0)), OutputHead::Normalised));
}

#[test]
fn windows_follow_the_keys_of_the_family() {
    let windows = |family, changes| config(family, changes).map(|config| config.architecture.windows);
    assert_eq!(windows("mistral", json!({"sliding_window": 7})).unwrap(), [Some(7); 3]);
    assert_eq!(windows("mistral", json!({"sliding_window": null})).unwrap(), [None; 3]);
    let off = json!({"sliding_window": 7, "max_window_layers": 1});
    assert_eq!(windows("qwen2", off).unwrap(), [None; 3]);
    let on = json!({"sliding_window": 7, "max_window_layers": 1, "use_sliding_window": true});
    assert_eq!(windows("qwen2", on).unwrap(), [None, Some(7), Some(7)]);
    let types = |kinds: [&str; 3]| json!({"sliding_window": 7, "use_sliding_window": true, "layer_types": kinds});
    let (full, sliding) = ("full_attention", "sliding_attention");
    assert_eq!(windows("qwen3", types([sliding, full, sliding])).unwrap(), [Some(7), None, Some(7)]);
    assert!(windows("qwen3", types([sliding, full, "linear_attention"])).is_err());
    assert!(windows("qwen3", json!({"layer_types": [sliding, full, full]})).is_err());
    assert!(windows("qwen3", json!({"layer_types": [full]})).is_err());
    let every_other = json!({"sliding_window": 7, "sliding_window_pattern": 2});
    assert_eq!(windows("gemma3_text", every_other).unwrap(), [Some(7), None, Some(7)]);
    let listed = json!({"sliding_window": 7, "layer_types": [full, sliding, full]});
    assert_eq!(windows("gemma3_text", listed.clone()).unwrap(), [None, Some(7), None]);
    assert!(windows("gemma3_text", json!({"layer_types": [full, "linear_attention", full]})).is_err());
    assert!(windows("gemma3_text", json!({"sliding_window": null})).is_err());
    assert_eq!(windows("olmo3", listed.clone()).unwrap(), [None, Some(7), None]);
    assert_eq!(windows("phi3", json!({"sliding_window": 7})).unwrap(), [Some(7); 3]);
    let without_rope = json!({"sliding_window": 7, "use_sliding_window": true, "no_rope_layers": [1, 0, 1]});
    assert_eq!(windows("smollm3", without_rope).unwrap(), [None, Some(7), None]);
    assert_eq!(windows("smollm3", json!({"sliding_window": 7, "no_rope_layers": [1, 0, 1]})).unwrap(), [None; 3]);
    assert!(windows("smollm3", listed).is_err());
    assert!(windows("mistral", json!({"sliding_window": 0})).is_err());
    assert!(windows("mistral", json!({"num_hidden_layers": u32::MAX})).is_err());
}

#[test]
fn a_configuration_without_model_type_is_told_by_its_class() {
    let of = |keys: Value| {
        let mut all = json!({"hidden_size": 8, "intermediate_size": 12, "vocab_size": 10, "num_hidden_layers": 1,
            "num_attention_heads": 2, "num_key_value_heads": 2});
        all.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        ModelConfig::from_keys(all.as_object().unwrap().clone())
    };
    assert_eq!(of(json!({})).unwrap().keys()["model_type"], "llama");
    assert!(of(json!({"architectures": ["Qwen2ForCausalLM"]})).unwrap().architecture.biases.qkv);
    let error = of(json!({"architectures": ["GPT2LMHeadModel"]})).unwrap_err().to_string();
    assert!(error.contains("\"qwen3\" and \"baichuan\""), "{error}");
}

/// As published: most sizes are defaults of the text model, and the ids of tokens are outside of it.
#[test]
fn multimodal_configurations_have_the_text_model_inside() {
    let of = |text: Value, rest: Value| {
        let mut keys = json!({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 3}});
        keys.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        ModelConfig::from_keys(keys.as_object().unwrap().clone())
    };
    let text = json!({"model_type": "gemma3_text", "hidden_size": 16, "num_hidden_layers": 7, "sliding_window": 9,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}});
    let read = of(text.clone(), json!({"eos_token_id": [1, 106]})).unwrap();
    let model = &read.architecture;
    assert_eq!(
        (model.modalities, model.head, model.vocab_size),
        (Modalities::TextAndImages, OutputHead::Tied, 262_208)
    );
    assert_eq!((model.heads.query, model.heads.kv, model.heads.dim), (8, 4, 256));
    assert_eq!((model.windows[4], model.windows[5], model.windows[6]), (Some(9), None, Some(9)));
    assert_eq!((model.rope(0).unwrap(), model.rope(5).unwrap().theta), (&Rope::new(1e4), 1e6));
    assert_eq!((read.eos_token_ids.as_slice(), read.keys().contains_key("hidden_activation")), (&[1, 106][..], false));
    let untied = of(text, json!({"tie_word_embeddings": false})).unwrap();
    assert_eq!(untied.architecture.head, OutputHead::Plain);
    for (text, rest, part) in [
        (json!(null), json!({}), "`text_config` is missing"),
        (json!({"model_type": "llama"}), json!({}), "\"gemma3_text\""),
        (json!({"final_logit_softcapping": 30.0}), json!({}), "`final_logit_softcapping`"),
        (json!({}), json!({"quantization_config": {"bits": 4}}), "`quantization_config`"),
    ] {
        let error = of(text, rest).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Keys of transformers' configuration classes that change the computation, each with a value that does.
#[test]
fn computations_that_are_not_implemented_are_refused_by_name_in_every_family() {
    for (key, value) in [
        ("hidden_act", json!("gelu")),
        ("hidden_act", json!(["silu"])),
        ("attn_logit_softcapping", json!(50.0)),
        ("final_logit_softcapping", json!(30.0)),
        ("query_pre_attn_scalar", json!(256)),
        ("partial_rotary_factor", json!(0.5)),
        ("rope_scaling", json!({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]})),
        ("rope_scaling", json!({"type": "dynamic", "factor": 4.0})),
        ("rope_scaling", json!({"type": "yarn"})),
        ("rope_parameters", json!({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0})),
        ("num_experts", json!(8)),
        ("num_local_experts", json!(8)),
        ("num_experts_per_tok", json!(2)),
        ("n_routed_experts", json!(64)),
        ("moe_intermediate_size", json!(768)),
        ("embedding_multiplier", json!(12.0)),
        ("attention_multiplier", json!(0.0078125)),
        ("residual_multiplier", json!(0.22)),
        ("logits_scaling", json!(8.0)),
        ("logit_scale", json!(0.0625)),
        ("use_qk_norm", json!(true)),
        ("clip_qkv", json!(8.0)),
        ("attention_chunk_size", json!(8192)),
        ("no_rope_layers", json!([1, 1, 0])),
        ("kv_lora_rank", json!(512)),
        ("sliding_window_pattern", json!(6)),
        ("quantization_config", json!({"quant_method": "gptq", "bits": 4})),
        ("is_encoder_decoder", json!(true)),
        ("add_cross_attention", json!(true)),
        ("pruned_heads", json!({"0": [1]})),
        ("position_embedding_type", json!("relative_key")),
        ("alibi", json!(true)),
        ("use_parallel_residual", json!(true)),
        ("qkv_bias", json!(true)),
    ] {
        let computed = match key {
            "query_pre_attn_scalar" | "sliding_window_pattern" => "gemma3_text",
            "no_rope_layers" => "smollm3",
            "partial_rotary_factor" => "phi3",
            "rope_scaling" if value["rope_type"] == "longrope" => "phi3",
            "embedding_multiplier" | "attention_multiplier" | "residual_multiplier" | "logits_scaling" => "granite",
            _ => "",
        };
        for family in FAMILIES.into_iter().filter(|family| *family != computed) {
            let change: Map<String, Value> = [(key.to_owned(), value.clone())].into_iter().collect();
            let error = config(family, Value::Object(change)).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}`")), "{family}, {key}: {error}");
        }
    }
}

/// Keys that one family supports and another does not.
#[test]
fn keys_of_other_families_are_refused() {
    for (family, key, value) in [
        ("llama", "sliding_window", json!(16)),
        ("llama", "use_sliding_window", json!(true)),
        ("mistral", "attention_bias", json!(true)),
        ("mistral", "mlp_bias", json!(true)),
        ("qwen2", "mlp_bias", json!(true)),
        ("qwen2", "attention_bias", json!(false)),
        ("qwen3", "mlp_bias", json!(true)),
        ("olmo3", "sliding_window", json!(null)),
        ("olmo3", "rope_parameters", json!({"rope_theta": 1e4})),
        ("smollm3", "no_rope_layers", json!([1, 0])),
        ("smollm3", "no_rope_layers", json!([1, 0, 2])),
        ("smollm3", "no_rope_layer_interval", json!(0)),
        ("granite", "sliding_window", json!(16)),
        ("granite", "logits_scaling", json!(0.0)),
        ("granite", "residual_multiplier", json!(-1.0)),
        ("phi3", "attention_bias", json!(true)),
        ("phi3", "partial_rotary_factor", json!(0.01)),
        ("phi3", "rope_scaling", json!({"type": "longrope", "short_factor": [1.0], "long_factor": [2.0, 3.0]})),
        ("baichuan", "attention_bias", json!(true)),
        ("baichuan", "sliding_window", json!(16)),
        ("baichuan", "tie_word_embeddings", json!(true)),
        ("baichuan", "rope_theta", json!(5e5)),
        ("baichuan", "rope_scaling", json!({"type": "linear", "factor": 2.0})),
        ("baichuan", "num_key_value_heads", json!(2)),
        ("baichuan", "head_dim", json!(4)),
        ("baichuan", "vocab_size", json!(64_000)),
        ("baichuan", "architectures", json!(["BaiChuanForCausalLM"])),
    ] {
        let change: Map<String, Value> = [(key.to_owned(), value.clone())].into_iter().collect();
        assert!(config(family, Value::Object(change)).is_err(), "{family}, {key}: {value}");
    }
}

/// Values without effect that occur in published configurations.
#[test]
fn keys_that_ask_for_nothing_are_kept() {
    let extra = json!({"attention_bias": false, "mlp_bias": false, "pretraining_tp": 2, "rope_scaling": null,
        "sliding_window": null, "use_sliding_window": false, "num_experts": null, "partial_rotary_factor": 1.0,
        "rope_interleaved": false, "pruned_heads": {}, "use_cache": true, "is_llama_config": true});
    let read = config("llama", extra.clone()).unwrap();
    for (key, value) in extra.as_object().unwrap() {
        assert_eq!(&read.keys()[key], value);
    }
}

#[test]
fn sizes_and_numbers_out_of_range_are_refused() {
    for change in [
        json!({"num_hidden_layers": 2_147_483_648_u64}),
        json!({"num_hidden_layers": 0}),
        json!({"num_attention_heads": 0}),
        json!({"num_key_value_heads": 3}),
        json!({"num_key_value_heads": 0}),
        json!({"head_dim": 0}),
        json!({"head_dim": 3}),
        json!({"head_dim": "4"}),
        json!({"hidden_size": 9}),
        json!({"hidden_size": -8}),
        json!({"max_position_embeddings": 9_223_372_036_854_775_807_u64}),
        json!({"hidden_size": 2_147_483_648_u64}),
        json!({"vocab_size": 18_446_744_073_709_551_615_u64}),
        json!({"rms_norm_eps": 1e-60}),
        json!({"rms_norm_eps": -1e-6}),
        json!({"rope_theta": 0}),
        json!({"rope_theta": 1e300}),
        json!({"initializer_range": 1e300}),
        json!({"eos_token_id": [2, -1]}),
        json!({"bos_token_id": "1"}),
        json!({"model_type": 7}),
        json!({"model_type": "gpt2"}),
    ] {
        assert!(matches!(config("llama", change.clone()), Err(Error::Config(_))), "{change}");
    }
    config("llama", json!({"max_position_embeddings": 2_147_483_648_u64, "rope_theta": 5e8, "rms_norm_eps": 1e-12}))
        .unwrap();
}

#[test]
fn unknown_model_type_is_quoted_in_one_line() {
    let kind = format!("a\nb\u{1b}[2J{}", "x".repeat(5000));
    let error = config("llama", json!({"model_type": kind})).unwrap_err().to_string();
    assert!(error.contains(r"a\nb\u{1b}[2J") && error.len() < 600, "{error}");
}

#[test]
fn dropout_is_found_under_its_names() {
    let of = |changes| config("llama", changes).unwrap().dropout();
    assert_eq!(of(json!({"attention_dropout": 0.0, "resid_pdrop": 0, "dropout": null, "hidden_dropout": false})), None);
    assert_eq!(of(json!({"attention_dropout": 0.0, "resid_pdrop": 0.1})), Some(("resid_pdrop", "0.1".to_owned())));
    assert!(of(json!({"attention_dropout": "0.1"})).is_some());
}

#[test]
fn configuration_round_trips_with_unknown_keys() {
    let read = config("llama", json!({"use_cache": true, "eos_token_id": [2, 7], "bos_token_id": null})).unwrap();
    assert_eq!((read.bos_token_id, read.eos_token_ids.as_slice()), (None, [2, 7].as_slice()));
    let again: ModelConfig = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
    assert_eq!(again, read);
    assert_eq!(read.with("vocab_size", 20).unwrap().architecture.vocab_size, 20);
    assert!(read.with("vocab_size", 0).is_err());
}

"""What other programs call our settings: fairseq, JoeyNMT, Marian, Sockeye, transformers, torch."""

from collections.abc import Collection

_NAMES = {
    "data.src_lang": "source_lang source_language",
    "data.tgt_lang": "target_lang target_language trg_lang",
    "data.val": "dev valid validation validation_data valid_sets",
    "tokenizer.kind": "tokenizer_type",
    "tokenizer.model_type": "bpe sentencepiece spm",
    "tokenizer.vocab_size": "dim_vocabs max_vocab n_vocab num_words voc_limit vocabulary_size",
    "tokenizer.min_freq": "min_count voc_min_freq word_min_count",
    "tokenizer.lowercase": "do_lower_case lower",
    "model.d_model": "dim dim_emb emb_dim emb_size embed_dim embedding_dim encoder_embed_dim "
    "hidden_dim hidden_size model_dim model_size transformer_model_size width",
    "model.num_heads": "encoder_attention_heads heads n_head n_heads nhead num_attention_heads "
    "transformer_attention_heads transformer_heads",
    "model.d_ff": "d_inner dim_feedforward encoder_ffn_embed_dim ff_size ffn ffn_dim "
    "intermediate_size transformer_dim_ffn transformer_feed_forward_num_hidden",
    "model.num_encoder_layers": "depth enc_depth enc_layers encoder_layers layers n_layer n_layers "
    "nlayers num_hidden_layers num_layers",
    "model.num_decoder_layers": "dec_depth dec_layers decoder_layers",
    "model.dropout": "hidden_dropout hidden_dropout_prob transformer_dropout",
    "model.attention_dropout": "attention_probs_dropout_prob attn_dropout "
    "transformer_dropout_attention transformer_dropout_attn",
    "model.activation_dropout": "relu_dropout transformer_dropout_act transformer_dropout_ffn",
    "model.norm": "encoder_normalize_before layer_norm norm_first normalize_before pre_norm",
    "model.positions": "position_embedding_type positional_encoding "
    "transformer_positional_embedding_type",
    "model.max_positions": "max_position_embeddings max_source_positions",
    "model.activation": "activation_fn activation_function hidden_act transformer_ffn_activation",
    "model.tying": "share_all_embeddings share_embeddings tie_word_embeddings tied_embeddings "
    "tied_embeddings_all tied_softmax weight_tying weight_tying_type",
    "training.epochs": "after_epochs max_epoch max_epochs max_num_epochs n_epochs num_epochs "
    "num_train_epochs",
    "training.max_steps": "after_batches iterations max_num_updates max_update max_updates "
    "total_steps train_steps updates",
    "training.batch_tokens": "batch_size batch_type max_tokens mini_batch mini_batch_words "
    "per_device_train_batch_size tokens_per_batch train_batch_size",
    "training.accumulate": "accum_count batch_multiplier grad_accum gradient_accumulation_steps "
    "optimizer_delay update_freq update_interval",
    "training.max_length": "max_seq_len max_seq_length max_sent_length max_sentence_length "
    "max_source_length",
    "training.rdrop_alpha": "consistency r_drop rdrop reg_alpha",
    "training.ema_decay": "average_decay ema exponential_smoothing",
    "training.schedule.kind": "learning_rate_scheduler_type lr_schedule lr_scheduler "
    "lr_scheduler_type scheduler scheduling",
    "training.schedule.peak": "initial_learning_rate learn_rate learning_rate lr max_lr peak_lr",
    "training.schedule.warmup": "learning_rate_warmup lr_warmup num_warmup_steps warmup "
    "warmup_steps warmup_updates",
    "training.betas": "adam_betas optimizer_betas",
    "training.eps": "adam_eps adam_epsilon epsilon optimizer_eps",
    "training.clip_norm": "clip_grad_norm clip_gradients grad_clip gradient_clip_val "
    "gradient_clipping_threshold max_grad_norm",
    "training.validate_every": "checkpoint_interval eval_every eval_steps valid_freq "
    "validate_interval_updates validation_freq",
    "training.save_every": "save_freq save_interval save_interval_updates save_steps",
    "training.keep_last": "keep keep_best_ckpts keep_last_ckpts keep_last_epochs keep_last_params "
    "save_total_limit",
    "training.select": "best_checkpoint_metric early_stopping_metric metric_for_best_model "
    "optimized_metric",
    "training.patience": "early_stopping early_stopping_patience max_num_checkpoint_not_improved",
    "decoding.beam_size": "beam beam_width num_beams",
    "decoding.length_penalty": "alpha beam_alpha length_penalty_alpha lenpen normalize",
    "decoding.max_length_ratio": "max_len_a max_new_tokens max_output_length",
    "seed": "manual_seed random_seed",
}
_KEYS = {name: key for key, names in _NAMES.items() for name in names.split()}
_KINDS = {
    **dict.fromkeys(("bpe", "sentencepiece_bpe", "spm", "subword", "unigram"), "sentencepiece"),
    **dict.fromkeys(("hf", "tokenizers"), "huggingface"),
    **dict.fromkeys(("spacy", "tokens"), "words"),
    **dict.fromkeys(("inverse_square_root", "inv_sqrt", "isqrt"), "inverse_sqrt"),
    **dict.fromkeys(("bitext", "corpus", "parallel", "text"), "files"),
}


def our_key(name: str) -> str | None:
    """Return the dotted key of ours that others call ``name``, if it is known."""
    return _KEYS.get(name.lower().replace("-", "_"))


def our_kind(name: str, kinds: Collection[str]) -> str | None:
    """Return the one of ``kinds`` that others call ``name``, if it is known."""
    kind = _KINDS.get(name.lower().replace("-", "_"))
    return kind if kind in kinds else None

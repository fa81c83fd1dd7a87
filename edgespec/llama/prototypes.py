"""What llama.cpp's functions take and return, as far as they are used here, and the structs that pass by value."""

from __future__ import annotations

import ctypes
from ctypes import (
    POINTER,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any


class Batch(ctypes.Structure):
    """llama_batch, with plain addresses: they are set once to numpy memory."""

    _fields_ = (
        ("n_tokens", c_int32),
        ("token", c_void_p),
        ("embd", c_void_p),
        ("pos", c_void_p),
        ("n_seq_id", c_void_p),
        ("seq_id", c_void_p),
        ("logits", c_void_p),
    )


class TokenDataArray(ctypes.Structure):
    """llama_token_data_array. Samplers may move `data`, shrink `size` and permute the elements."""

    _fields_ = (("data", c_void_p), ("size", c_size_t), ("selected", c_int64), ("sorted", c_bool))


LOG_CALLBACK = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
ABORT_CALLBACK = ctypes.CFUNCTYPE(None, c_char_p)

_P = c_void_p
PROTOTYPES: dict[str, tuple[Any, ...]] = {  # name: (result, *arguments)
    "llama_log_set": (None, LOG_CALLBACK, _P),
    "llama_backend_init": (None,),
    "llama_version": (c_char_p,),
    "llama_print_system_info": (c_char_p,),
    "llama_supports_gpu_offload": (c_bool,),
    # models
    "llama_model_free": (None, _P),
    "llama_model_get_vocab": (_P, _P),
    "llama_model_n_ctx_train": (c_int32, _P),
    "llama_model_n_embd": (c_int32, _P),
    "llama_model_n_layer": (c_int32, _P),
    "llama_model_n_head": (c_int32, _P),
    "llama_model_n_head_kv": (c_int32, _P),
    "llama_model_n_swa": (c_int32, _P),
    "llama_model_n_params": (c_uint64, _P),
    "llama_model_size": (c_uint64, _P),
    "llama_model_chat_template": (c_char_p, _P, c_char_p),
    "llama_model_meta_val_str": (c_int32, _P, c_char_p, _P, c_size_t),
    "llama_model_has_encoder": (c_bool, _P),
    "llama_model_has_decoder": (c_bool, _P),
    "llama_model_is_recurrent": (c_bool, _P),
    "llama_model_is_hybrid": (c_bool, _P),
    "llama_model_is_diffusion": (c_bool, _P),
    # contexts
    "llama_free": (None, _P),
    "llama_n_ctx": (c_uint32, _P),
    "llama_n_batch": (c_uint32, _P),
    "llama_n_ubatch": (c_uint32, _P),
    "llama_n_rs_seq": (c_uint32, _P),
    "llama_get_memory": (_P, _P),
    "llama_decode": (c_int32, _P, Batch),
    "llama_get_logits": (_P, _P),
    "llama_synchronize": (None, _P),
    "llama_memory_clear": (None, _P, c_bool),
    "llama_memory_seq_rm": (c_bool, _P, c_int32, c_int32, c_int32),
    "llama_memory_seq_pos_min": (c_int32, _P, c_int32),
    "llama_memory_seq_pos_max": (c_int32, _P, c_int32),
    # vocabularies
    "llama_vocab_n_tokens": (c_int32, _P),
    "llama_vocab_type": (c_int, _P),
    "llama_vocab_get_text": (c_char_p, _P, c_int32),
    "llama_vocab_get_attr": (c_int, _P, c_int32),
    "llama_vocab_is_eog": (c_bool, _P, c_int32),
    "llama_vocab_bos": (c_int32, _P),
    "llama_vocab_eos": (c_int32, _P),
    "llama_vocab_get_add_bos": (c_bool, _P),
    "llama_vocab_get_add_eos": (c_bool, _P),
    "llama_tokenize": (c_int32, _P, c_char_p, c_int32, _P, c_int32, c_bool, c_bool),
    "llama_token_to_piece": (c_int32, _P, c_int32, _P, c_int32, c_int32, c_bool),
    # samplers
    "llama_sampler_chain_add": (None, _P, _P),
    "llama_sampler_accept": (None, _P, c_int32),
    "llama_sampler_apply": (None, _P, POINTER(TokenDataArray)),
    "llama_sampler_clone": (_P, _P),
    "llama_sampler_free": (None, _P),
    "llama_sampler_init_greedy": (_P,),
    "llama_sampler_init_dist": (_P, c_uint32),
    "llama_sampler_init_top_k": (_P, c_int32),
    "llama_sampler_init_top_p": (_P, c_float, c_size_t),
    "llama_sampler_init_min_p": (_P, c_float, c_size_t),
    "llama_sampler_init_temp": (_P, c_float),
    "llama_sampler_init_penalties": (_P, c_int32, c_int32, c_float, c_float, c_float),
    # ggml, found through libllama's dependencies
    "ggml_set_abort_callback": (_P, ABORT_CALLBACK),
    "ggml_backend_load_all_from_path": (None, c_char_p),
    "ggml_backend_dev_count": (c_size_t,),
    "ggml_backend_dev_get": (_P, c_size_t),
    "ggml_backend_dev_name": (c_char_p, _P),
    "ggml_backend_dev_description": (c_char_p, _P),
    "ggml_backend_dev_memory": (None, _P, POINTER(c_size_t), POINTER(c_size_t)),
    "ggml_backend_dev_type": (c_int, _P),
    "ggml_backend_dev_backend_reg": (_P, _P),
    "ggml_backend_reg_name": (c_char_p, _P),
}

EXTENSIONS: dict[str, tuple[str, ...]] = {
    # Functions of an internal C++ header: name, then the mangled names by Itanium and by Microsoft rules.
    "llama_set_embeddings_nextn": (
        "_Z26llama_set_embeddings_nextnP13llama_contextbb",
        "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
    ),
    "llama_set_nextn_layer_offset": (
        "_Z28llama_set_nextn_layer_offsetP13llama_contexti",
        "?llama_set_nextn_layer_offset@@YAXPEAUllama_context@@H@Z",
    ),
    "llama_get_embeddings_nextn": (
        "_Z26llama_get_embeddings_nextnP13llama_context",
        "?llama_get_embeddings_nextn@@YAPEAMPEAUllama_context@@@Z",
    ),
    "llama_get_embeddings_nextn_ith": (
        "_Z30llama_get_embeddings_nextn_ithP13llama_contexti",
        "?llama_get_embeddings_nextn_ith@@YAPEAMPEAUllama_context@@H@Z",
    ),
    "llama_get_ctx_other": (
        "_Z19llama_get_ctx_otherP13llama_context",
        "?llama_get_ctx_other@@YAPEAUllama_context@@PEAU1@@Z",
    ),
    "llama_set_embeddings_layer_inp": (
        "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
        "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
    ),
    "llama_get_embeddings_layer_inp": (
        "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
        "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
    ),
    "llama_model_target_layer_ids": (
        "_Z28llama_model_target_layer_idsPK11llama_model",
        "?llama_model_target_layer_ids@@YAPEBHPEBUllama_model@@@Z",
    ),
    "llama_model_target_layer_ids_n": (
        "_Z30llama_model_target_layer_ids_nPK11llama_model",
        "?llama_model_target_layer_ids_n@@YAIPEBUllama_model@@@Z",
    ),
    "llama_model_dflash_selector_top_k": (
        "_Z33llama_model_dflash_selector_top_kPK11llama_model",
        "?llama_model_dflash_selector_top_k@@YAHPEBUllama_model@@@Z",
    ),
    "llama_model_get_tok_embd": (
        "_Z24llama_model_get_tok_embdPK11llama_modelPf",
        "?llama_model_get_tok_embd@@YAIPEBUllama_model@@PEAM@Z",
    ),
}
